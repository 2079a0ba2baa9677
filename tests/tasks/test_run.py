"""A run that stops in any way and is resumed gives what an undisturbed one gives."""

import errno
import json
from math import isfinite, nan
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clearhead.checkpoint import WEIGHTS
from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.errors import ModelError, SettingsError, TrainingError
from clearhead.tasks.events import Finished, Note, Saved, Started, Validation
from clearhead.tasks.export import export_int8
from clearhead.tasks.records import read_metrics
from clearhead.tasks.run import resume, train
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.training import Report, Trainer

from .conftest import finish, interrupted_at

SHORT = ["training.steps=24", "training.save_every=5", "training.validate_every=8", "training.report_every=3"]
SMALL = ["model.dropout=0.1", "model.width=16", "model.ffn_width=32", "batches.tokens=400"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, number_recipe):
    """The toy's recipe, shortened, with changes."""
    values = read_toml(number_recipe(tmp_path_factory.mktemp("recipe")))

    def make(*changes: str) -> TranslationRecipe:
        return parse_settings(TranslationRecipe, apply_overrides(values, [*SHORT, *SMALL, *changes]))

    return make


def measurements(out: Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "tokens_per_second")} for line in lines]


VARIANTS = {
    "plain": [],
    "average of the last": ['training.average={count = 3, of = "last"}'],
    "average of the best": ['training.average={count = 2, of = "best"}'],
    "saved by the clock": ["training.save_minutes=1e-9", 'training.average={count = 3, of = "last"}'],
    "moving average": ["training.ema_decay=0.9"],
    "accumulated": ["training.accumulate=2", "training.optimizer={kind = 'muon'}"],
    "BPE dropout": ['tokenizer={kind = "bpe", vocabulary = 60, dropout = 0.3}'],
    "packed rows": ['batches.kind="packed"', "batches.row_length=24"],
    "packed rows, BPE dropout": [
        'batches.kind="packed"',
        'tokenizer={kind = "bpe", vocabulary = 60, dropout = 0.3}',
    ],
    "R-Drop": ['training.regulariser={kind = "rdrop"}'],
    "SimCut, packed rows": ['training.regulariser={kind = "simcut", cut = 0.3}', 'batches.kind="packed"'],
    "nothing held out": ["data.hold_out={validation = 0, test = 0}"],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_interrupted_again_and_again_equals_undisturbed(variant, tmp_path, recipe):
    chosen = recipe(*VARIANTS[variant])
    finish(train(chosen, tmp_path / "straight"))
    out = tmp_path / "interrupted"
    for steps, events in (({3}, train(chosen, out)), ({21}, resume(out)), ({22}, resume(out))):
        ended = interrupted_at(steps, events)
        assert ended.interrupted
        assert ended.step in steps
    assert not finish(resume(out)).interrupted
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()
    assert measurements(out) == measurements(tmp_path / "straight")


def test_a_run_that_ends_between_any_two_events_can_be_resumed(tmp_path, recipe):
    chosen = recipe("training.steps=8", "training.validate_every=4", "training.save_every=3")
    told = list(train(chosen, tmp_path / "straight"))
    out = tmp_path / "stopped"
    for count in range(1, len(told), 3):
        events = resume(out) if (out / "config.toml").exists() else train(chosen, out)
        for _, _ in zip(range(count), events, strict=False):
            pass
        events.close()  # pyright: ignore[reportAttributeAccessIssue]
    finish(resume(out))
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()
    assert measurements(out) == measurements(tmp_path / "straight")


def test_the_events_come_in_order_and_the_best_is_published(tmp_path, recipe):
    out = tmp_path / "run"
    events = list(train(recipe(), out))
    kinds = [type(event) for event in events]
    begun = kinds.index(Started)
    assert set(kinds[:begun]) == {Note}
    assert [event.step for event in events if isinstance(event, Report)] == list(range(1, 25))
    assert [event.step for event in events if isinstance(event, Validation)] == [8, 16, 24]
    assert [event.step for event in events if isinstance(event, Saved)] == [5, 8, 10, 15, 16, 20, 24]
    assert events[-1] == Finished(out, 24, False, "all steps are done")


def test_a_resumed_run_may_go_on_for_longer(tmp_path, recipe):
    constant = 'training.schedule={kind = "constant", learning_rate = 1e-3}'
    finish(train(recipe("training.steps=10", constant), tmp_path / "longer"))
    assert finish(resume(tmp_path / "longer", ["training.steps=24"])).step == 24
    finish(train(recipe(constant), tmp_path / "straight"))
    first, second = (measurements(tmp_path / name)[-1] for name in ("longer", "straight"))
    assert first == second
    assert read_toml(tmp_path / "longer" / "config.toml")["training"]["steps"] == 24


def test_a_finished_run_can_be_resumed_and_stays_as_it_is(tmp_path, recipe):
    finish(train(recipe(), tmp_path))
    before = (tmp_path / WEIGHTS).read_bytes(), measurements(tmp_path)
    assert finish(resume(tmp_path)) == Finished(tmp_path, 24, False, "all steps are done")
    assert ((tmp_path / WEIGHTS).read_bytes(), measurements(tmp_path)) == before


def test_a_run_without_improvement_stops_and_keeps_its_best(tmp_path, recipe):
    hot = 'training.schedule={kind = "constant", learning_rate = 0.5}'
    ended = finish(train(recipe(hot, "training.patience=2", "training.validate_every=2"), tmp_path))
    assert ended.reason == "no improvement any more"
    assert ended.step < 24
    losses = {line["step"]: line["loss"] for line in measurements(tmp_path) if line["kind"] == "validation"}
    best = min(losses, key=losses.__getitem__)
    published = load_file(tmp_path / WEIGHTS)
    kept = load_file(tmp_path / "training" / f"weights-{best:08}.safetensors")
    assert all(published[name].equal(kept[name]) for name in published)
    # Resumed, it knows that its patience is at an end.
    assert finish(resume(tmp_path)) == ended


def test_a_diverging_run_says_so_and_keeps_the_last_good_state(tmp_path, recipe):
    wild = 'training.schedule={kind = "constant", learning_rate = 1e38}'
    with pytest.raises(TrainingError, match=r"step \d+: the run diverged .* lower the learning rate"):
        finish(train(recipe(wild, "training.clip_norm=1e38", "training.save_every=1"), tmp_path))
    assert list(tmp_path.glob("training/state-*.safetensors"))


def test_what_a_device_began_after_a_broken_step_is_not_measured(tmp_path, recipe, monkeypatch):
    """A GPU tells of its steps some steps later; here the processor is made to listen as late."""
    usual = Trainer._gradients
    broken = iter([7])

    def gradients(self, group):
        self._lag = 2
        return usual(self, group) * (nan if self.step == 6 and next(broken, None) else 1)

    monkeypatch.setattr(Trainer, "_gradients", gradients)
    with pytest.raises(TrainingError, match="step 7: the run diverged"):
        finish(train(recipe("training.report_every=12", "training.validate_every=12"), tmp_path))
    finish(resume(tmp_path))
    told = [line["loss"] for line in read_metrics(tmp_path) if line["kind"] == "train"]
    assert len(told) == 2
    assert all(map(isfinite, told))


def test_a_folder_with_a_run_is_not_overwritten(tmp_path, recipe):
    finish(train(recipe("training.steps=2"), tmp_path))
    before = (tmp_path / WEIGHTS).read_bytes()
    with pytest.raises(TrainingError, match=r"holds a run already; go on with it \(--resume\), or choose"):
        finish(train(recipe(), tmp_path))
    assert (tmp_path / WEIGHTS).read_bytes() == before


def test_only_settings_that_do_not_change_what_is_learned_may_be_changed_on_resuming(tmp_path, recipe):
    finish(train(recipe("training.steps=2"), tmp_path))
    before = (tmp_path / "config.toml").read_text()
    for change in ("model.width=32", "training.seed=2", "data.source=fr", "nonsense"):
        with pytest.raises(SettingsError, match=f"--set {change}: a resumed run keeps its settings but for"):
            finish(resume(tmp_path, [change]))
    assert (tmp_path / "config.toml").read_text() == before


def test_a_gpu_that_is_not_there_is_missed_before_any_work(tmp_path, recipe, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match=r"training\.device: 'cuda', but torch finds no GPU here"):
        finish(train(recipe("training.device=cuda"), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_that_asked_for_a_gpu_goes_on_where_there_is_none(tmp_path, recipe, monkeypatch):
    finish(train(recipe("training.steps=2"), tmp_path))
    settings = tmp_path / "config.toml"
    settings.write_text(settings.read_text().replace('device = "cpu"', 'device = "cuda"'))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="use 'auto' or 'cpu'"):
        finish(resume(tmp_path, ["training.steps=4"]))
    finish(resume(tmp_path, ["training.steps=4", "training.device=cpu"]))
    assert read_metrics(tmp_path)[-1]["step"] == 4


def test_what_is_missing_for_resuming_is_named(tmp_path):
    with pytest.raises(TrainingError, match=r"no run to resume here, config\.toml is missing"):
        finish(resume(tmp_path))


def test_a_model_without_the_states_of_its_run_is_not_trained_over(tmp_path, number_model):
    export_int8(number_model, tmp_path / "small")
    before = (tmp_path / "small" / WEIGHTS).read_bytes()
    with pytest.raises(
        TrainingError, match=r"holds a model, but no state of a run .* training\.init_from = "
    ):
        next(resume(tmp_path / "small"))
    assert (tmp_path / "small" / WEIGHTS).read_bytes() == before
    assert not (tmp_path / "small" / "training").exists()


@pytest.mark.parametrize("variant", ["early", "during a state", "at the end"])
def test_a_full_disk_costs_nothing_but_the_step(variant, tmp_path, recipe, monkeypatch):
    chosen = recipe("training.save_every=4", "training.validate_every=100")
    finish(train(chosen, tmp_path / "straight"))
    out = tmp_path / "full"

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        match variant:
            case "early":
                patch.setattr(Path, "write_text", full)
            case "during a state":
                patch.setattr("clearhead.training.tensors.save_file", full)
            case "at the end":
                patch.setattr("clearhead.checkpoint.save_file", full)
        with pytest.raises((TrainingError, ModelError), match=r"full.*No space left on device.*make room"):
            finish(train(chosen, out))
    finish(resume(out) if (out / "config.toml").exists() else train(chosen, out))
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()
    assert measurements(out) == measurements(tmp_path / "straight")


def test_the_settings_in_the_folder_are_those_of_the_run(tmp_path, recipe):
    chosen = recipe("training.steps=1", *VARIANTS["average of the best"])
    finish(train(chosen, tmp_path))
    assert parse_settings(TranslationRecipe, read_toml(tmp_path / "config.toml")) == chosen.resolved(
        on_gpu=False
    )


def test_a_run_whose_files_have_changed_is_not_resumed(tmp_path, recipe):
    chosen = recipe("training.steps=8")
    place = Path(str(chosen.data.corpora[0].train[0]))
    copy = tmp_path / "pairs.tsv"
    copy.write_bytes(place.read_bytes())
    moved = recipe("training.steps=8", f'data.train=["{copy}"]')
    interrupted_at({3}, train(moved, tmp_path / "out"))
    with copy.open("a") as file:
        file.write("nine nine nine\t9 9 9\n")
    with pytest.raises(TrainingError, match="data: the files have changed since the run began"):
        finish(resume(tmp_path / "out"))


def test_a_bf16_run_resumes_bit_identically_too(tmp_path, recipe):
    chosen = recipe("training.precision='bf16'")
    finish(train(chosen, tmp_path / "straight"))
    interrupted_at({13}, train(chosen, tmp_path / "out"))
    finish(resume(tmp_path / "out"))
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()


def test_settings_edited_by_hand_are_refused_by_name(tmp_path, recipe):
    out = tmp_path / "out"
    interrupted_at({3}, train(recipe("training.steps=8"), out))
    saved = out / "config.toml"
    saved.write_text(saved.read_text().replace("label_smoothing = 0.1", "label_smoothing = 0.2"))
    with pytest.raises(TrainingError, match=r"training\.smoothing: changed since the run began"):
        finish(resume(out))


def test_the_card_and_the_measurements_tell_how_the_published_weights_do(tmp_path, recipe):
    out = tmp_path / "out"
    finish(train(recipe('training.average={count = 3, of = "last"}'), out))
    finish(resume(out))
    final = [line for line in measurements(out) if line["kind"] == "final"]
    assert len(final) == 1
    assert f"loss per token {final[0]['loss']:.2f}" in (out / "README.md").read_text()


def test_a_run_can_be_resumed_from_another_folder(tmp_path, recipe, monkeypatch):
    place = Path(str(recipe().data.corpora[0].train[0]))
    monkeypatch.chdir(place.parent)
    out = tmp_path / "out"
    interrupted_at({3}, train(recipe("training.steps=8", f'data.train=["{place.name}"]'), out))
    monkeypatch.chdir(tmp_path)
    assert finish(resume(out)).step == 8
