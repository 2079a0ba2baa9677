"""A run that stops in any way and is resumed ends with the same weights as an uninterrupted one."""

import errno
from math import isfinite, nan
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clearhead.checkpoint import WEIGHTS
from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.errors import ModelError, SettingsError, TrainingError
from clearhead.evaluation.metric import BLEU, LOSS
from clearhead.tasks.events import Finished, Note, Saved, Started, Validation
from clearhead.tasks.export import export_int8
from clearhead.tasks.loop import EarlyStopping
from clearhead.tasks.records import read_metrics
from clearhead.tasks.run import check_new_run, resume, train
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import TranslationTask
from clearhead.text.tokenizer import Tokenizer
from clearhead.training import Report, Trainer

from .conftest import finish, interrupted_at, metrics

SHORT = ["training.steps=24", "training.save_every=5", "training.validate_every=8", "training.report_every=3"]
SMALL = ["model.dropout=0.1", "model.width=16", "model.ffn_width=32", "batches.tokens=400"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, number_recipe):
    """Makes a short recipe with changes."""
    values = read_toml(number_recipe(tmp_path_factory.mktemp("recipe")))

    def make(*changes: str) -> TranslationRecipe:
        return parse_settings(TranslationRecipe, apply_overrides(values, [*SHORT, *SMALL, *changes]))

    return make


def assert_same_run(first: Path, second: Path) -> None:
    assert (first / WEIGHTS).read_bytes() == (second / WEIGHTS).read_bytes()
    assert metrics(first) == metrics(second)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# Resuming

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
    "nothing held out, moving average": [
        "data.hold_out={validation = 0, test = 0}",
        "training.ema_decay=0.9",
    ],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_interrupted_three_times_equals_an_uninterrupted_one(variant, tmp_path, recipe):
    chosen = recipe(*VARIANTS[variant])
    finish(train(chosen, tmp_path / "straight"))
    out = tmp_path / "interrupted"
    for steps, events in (({3}, train(chosen, out)), ({21}, resume(out)), ({22}, resume(out))):
        ended = interrupted_at(steps, events)
        assert ended.interrupted
        assert ended.step in steps
    assert not finish(resume(out)).interrupted
    assert_same_run(out, tmp_path / "straight")


def test_a_run_stopped_between_any_two_events_can_be_resumed(tmp_path, recipe):
    chosen = recipe("training.steps=8", "training.validate_every=4", "training.save_every=3")
    events = list(train(chosen, tmp_path / "straight"))
    out = tmp_path / "stopped"
    for count in range(1, len(events), 3):
        parts = resume(out) if (out / "config.toml").exists() else train(chosen, out)
        for _, _ in zip(range(count), parts, strict=False):
            pass
        parts.close()  # pyright: ignore[reportAttributeAccessIssue]
    finish(resume(out))
    assert_same_run(out, tmp_path / "straight")


def test_a_bf16_run_resumes_bit_identically_too(tmp_path, recipe):
    chosen = recipe("training.precision='bf16'")
    finish(train(chosen, tmp_path / "straight"))
    interrupted_at({13}, train(chosen, tmp_path / "out"))
    finish(resume(tmp_path / "out"))
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()


def test_a_resumed_run_may_have_more_steps(tmp_path, recipe):
    constant = 'training.schedule={kind = "constant", learning_rate = 1e-3}'
    finish(train(recipe("training.steps=10", constant), tmp_path / "longer"))
    assert finish(resume(tmp_path / "longer", ["training.steps=24"])).step == 24
    finish(train(recipe(constant), tmp_path / "straight"))
    first, second = (metrics(tmp_path / name)[-1] for name in ("longer", "straight"))
    assert first == second
    assert read_toml(tmp_path / "longer" / "config.toml")["training"]["steps"] == 24


def test_resuming_a_finished_run_changes_nothing(tmp_path, recipe):
    finish(train(recipe(), tmp_path))
    before = (tmp_path / WEIGHTS).read_bytes(), metrics(tmp_path)
    assert finish(resume(tmp_path)) == Finished(tmp_path, 24, False, "all steps are done")
    assert ((tmp_path / WEIGHTS).read_bytes(), metrics(tmp_path)) == before


def test_a_run_can_be_resumed_from_another_working_directory(tmp_path, recipe, monkeypatch):
    path = Path(str(recipe().data.corpora[0].train[0]))
    monkeypatch.chdir(path.parent)
    out = tmp_path / "out"
    interrupted_at({3}, train(recipe("training.steps=8", f'data.train=["{path.name}"]'), out))
    monkeypatch.chdir(tmp_path)
    assert finish(resume(out)).step == 8


def test_a_gpu_run_can_be_resumed_on_a_cpu(tmp_path, recipe, monkeypatch):
    finish(train(recipe("training.steps=2"), tmp_path))
    settings = tmp_path / "config.toml"
    settings.write_text(settings.read_text().replace('device = "cpu"', 'device = "cuda"'))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="use 'auto' or 'cpu'"):
        finish(resume(tmp_path, ["training.steps=4"]))
    finish(resume(tmp_path, ["training.steps=4", "training.device=cpu"]))
    assert read_metrics(tmp_path)[-1]["step"] == 4


@pytest.mark.parametrize("change", ["model.width=32", "training.seed=2", "data.source=fr", "nonsense"])
def test_resuming_refuses_changes_that_affect_the_result(change, tmp_path, recipe):
    interrupted_at({1}, train(recipe("training.steps=2"), tmp_path))
    before = (tmp_path / "config.toml").read_text()
    with pytest.raises(SettingsError, match=f"--set {change}: a resumed run may change only training"):
        finish(resume(tmp_path, [change]))
    assert (tmp_path / "config.toml").read_text() == before


def test_settings_edited_by_hand_are_refused_by_name(tmp_path, recipe):
    out = tmp_path / "out"
    interrupted_at({3}, train(recipe("training.steps=8"), out))
    saved = out / "config.toml"
    saved.write_text(saved.read_text().replace("label_smoothing = 0.1", "label_smoothing = 0.2"))
    with pytest.raises(TrainingError, match=r"training\.label_smoothing: has changed since the run started"):
        finish(resume(out))


def test_a_run_whose_files_have_changed_is_not_resumed(tmp_path, recipe):
    chosen = recipe("training.steps=8")
    copy = tmp_path / "pairs.tsv"
    copy.write_bytes(Path(str(chosen.data.corpora[0].train[0])).read_bytes())
    moved = recipe("training.steps=8", f'data.train=["{copy}"]')
    interrupted_at({3}, train(moved, tmp_path / "out"))
    with copy.open("a") as file:
        file.write("nine nine nine\t9 9 9\n")
    with pytest.raises(TrainingError, match="data: the files have changed since the run started; restore"):
        finish(resume(tmp_path / "out"))


def test_resuming_names_a_missing_settings_file(tmp_path):
    with pytest.raises(TrainingError, match=r"no run to resume, config\.toml is missing"):
        finish(resume(tmp_path))


def test_a_model_without_saved_states_is_not_resumed(tmp_path, number_model):
    export_int8(number_model, tmp_path / "small")
    before = contents(tmp_path / "small")
    with pytest.raises(TrainingError, match=r"holds a model but no state .* --set training\.init_from="):
        next(resume(tmp_path / "small"))
    assert contents(tmp_path / "small") == before
    assert not (tmp_path / "small" / "training").exists()


@pytest.mark.parametrize("variant", ["early", "in the tokenizer", "in a state", "at the end"])
def test_a_full_disk_loses_only_the_current_step(variant, tmp_path, recipe, monkeypatch):
    chosen = recipe("training.save_every=4", "training.validate_every=100")
    finish(train(chosen, tmp_path / "straight"))
    out = tmp_path / "full"

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        match variant:
            case "early":
                patch.setattr(Path, "write_text", full)
            case "in the tokenizer":
                patch.setattr(Tokenizer, "save", full)
            case "in a state":
                patch.setattr("clearhead.training.tensors.save_file", full)
            case "at the end":
                patch.setattr("clearhead.checkpoint.save_file", full)
        with pytest.raises((TrainingError, ModelError), match=r"full.*No space left on device"):
            finish(train(chosen, out))
    finish(resume(out) if (out / "config.toml").exists() else train(chosen, out))
    assert_same_run(out, tmp_path / "straight")


# The folder of a run


def test_a_folder_with_a_run_is_not_overwritten(tmp_path, recipe):
    finish(train(recipe("training.steps=2"), tmp_path))
    before = (tmp_path / WEIGHTS).read_bytes()
    with pytest.raises(TrainingError, match=r"already holds a run; continue it with --resume, or choose"):
        finish(train(recipe(), tmp_path))
    assert (tmp_path / WEIGHTS).read_bytes() == before


@pytest.mark.parametrize(
    "files",
    [
        ["README.md", "test.tsv"],
        ["notes.txt"],
        ["config.toml"],
        ["config.toml", "training/pairs.tsv", "training/half.tmp"],
        ["training/pairs.tsv"],
    ],
)
def test_a_folder_that_is_neither_empty_nor_a_run_is_refused_and_stays_unchanged(files, tmp_path, recipe):
    project = tmp_path / "project"
    for name in files:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('[model]\nkind = "translator"\n[training]\nsteps = 3\n')
    before = contents(project)
    for check in (lambda: check_new_run(project), lambda: next(train(recipe(), project))):
        with pytest.raises(TrainingError, match="project: is not empty and holds no run; choose"):
            check()
    assert contents(project) == before


@pytest.mark.parametrize("last", ["training the tokenizer", "reading, cleaning", "model: "])
def test_a_run_stopped_before_its_first_state_can_be_started_again(last, tmp_path, recipe):
    finish(train(recipe(), tmp_path / "straight"))
    out = tmp_path / "out"
    # The first attempt has other settings, so nothing that it prepared may be reused.
    events = train(recipe("training.seed=5", 'tokenizer={kind = "bpe", vocabulary = 60}'), out)
    for event in events:
        if isinstance(event, Note) and event.text.startswith(last):
            break
    events.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert (out / "config.toml").exists()
    check_new_run(out)
    finish(train(recipe(), out))
    for name in (WEIGHTS, "tokenizer.json", "config.toml", "validation.tsv", "test.tsv"):
        assert (out / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_an_empty_folder_can_be_trained_into(tmp_path, recipe):
    (tmp_path / "out").mkdir()
    assert finish(train(recipe("training.steps=1"), tmp_path / "out")).step == 1


def test_a_missing_gpu_is_reported_before_any_work(tmp_path, recipe, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match=r"training\.device: 'cuda'"):
        finish(train(recipe("training.device=cuda"), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_the_settings_in_the_folder_are_those_of_the_run(tmp_path, recipe):
    chosen = recipe("training.steps=1", *VARIANTS["average of the best"])
    finish(train(chosen, tmp_path))
    saved = parse_settings(TranslationRecipe, read_toml(tmp_path / "config.toml"))
    assert saved == chosen.resolved(on_gpu=False)


def test_card_and_metrics_hold_the_scores_of_the_final_weights(tmp_path, recipe):
    out = tmp_path / "out"
    finish(train(recipe('training.average={count = 3, of = "last"}'), out))
    finish(resume(out))
    final = [line for line in metrics(out) if line["kind"] == "final"]
    assert len(final) == 1
    assert f"- loss: {final[0]['loss']:.3f}\n" in (out / "README.md").read_text()


# Events, validation, early stopping


def test_events_come_in_order_and_the_best_weights_are_published(tmp_path, recipe):
    out = tmp_path / "run"
    events = list(train(recipe(), out))
    kinds = [type(event) for event in events]
    assert set(kinds[: kinds.index(Started)]) == {Note}
    assert [event.step for event in events if isinstance(event, Report)] == list(range(1, 25))
    assert [event.step for event in events if isinstance(event, Validation)] == [8, 16, 24]
    assert [event.step for event in events if isinstance(event, Saved)] == [5, 8, 10, 15, 16, 20, 24]
    assert events[-1] == Finished(out, 24, False, "all steps are done")


def test_a_run_without_improvement_stops_and_keeps_its_best_weights(tmp_path, recipe):
    hot = 'training.schedule={kind = "constant", learning_rate = 0.5}'
    ended = finish(train(recipe(hot, "training.patience=2", "training.validate_every=2"), tmp_path))
    assert ended.reason == "no improvement in 2 validations"
    assert ended.step < 24
    losses = {line["step"]: line["loss"] for line in metrics(tmp_path) if line["kind"] == "validation"}
    best = min(losses, key=losses.__getitem__)
    published = load_file(tmp_path / WEIGHTS)
    kept = load_file(tmp_path / "training" / f"weights-{best:08}.safetensors")
    assert all(published[name].equal(kept[name]) for name in published)
    # Patience is saved too: the resumed run stops at once.
    assert finish(resume(tmp_path)) == ended


def test_the_best_score_is_the_lowest_loss_or_the_highest_bleu():
    for metric, scores, best in ((LOSS, [3.0, 2.0, nan, 2.0], 2.0), (BLEU, [3.0, 4.0, nan, 3.5], 4.0)):
        stopping = EarlyStopping()
        assert [stopping.improved(score, metric) for score in scores] == [True, True, False, False]
        assert (stopping.best, stopping.waited) == (best, 2)


def test_a_monitor_that_is_not_reported_is_refused_by_name(tmp_path, recipe, monkeypatch):
    chosen = recipe('training.monitor="bleu"')
    with monkeypatch.context() as patch:
        patch.setattr(TranslationTask, "metrics", (LOSS,))
        with pytest.raises(SettingsError, match=r"training\.monitor: 'bleu' is not one of loss"):
            finish(train(chosen, tmp_path / "unknown"))
    monkeypatch.setattr(TranslationTask, "validate", lambda *_: {"loss": 1.0})
    with pytest.raises(SettingsError, match=r"training\.monitor: 'bleu' is not measured .* choose from loss"):
        finish(train(chosen, tmp_path / "unmeasured"))


def test_a_validation_event_is_readable_and_recordable():
    scores = {"loss": 1.5, "bleu": 20.0, "bleu en-de": 25.0, "bleu en-fr": 15.0}
    validation = Validation(8, scores, True, 0.5, (LOSS, BLEU))
    assert validation.text() == "loss 1.500, BLEU 20.0 (en-de 25.0, en-fr 15.0)"
    assert validation.record() == {"step": 8, **scores, "best": True, "seconds": 0.5}


def test_a_diverging_run_says_so_and_keeps_the_last_good_state(tmp_path, recipe):
    wild = 'training.schedule={kind = "constant", learning_rate = 1e38}'
    with pytest.raises(TrainingError, match=r"step \d+: the run diverged .* lower the learning rate"):
        finish(train(recipe(wild, "training.clip_norm=1e38", "training.save_every=1"), tmp_path))
    assert list(tmp_path.glob("training/state-*.safetensors"))


def test_steps_that_a_device_started_after_divergence_are_not_recorded(tmp_path, recipe, monkeypatch):
    """A GPU reports its steps some steps later; here the CPU is made to read its reports as late."""
    usual = Trainer._gradients
    broken = iter([7])

    def gradients(self, group):
        self._lag = 2
        return usual(self, group) * (nan if self.step == 6 and next(broken, None) else 1)

    monkeypatch.setattr(Trainer, "_gradients", gradients)
    with pytest.raises(TrainingError, match="step 7: the run diverged"):
        finish(train(recipe("training.report_every=12", "training.validate_every=12"), tmp_path))
    finish(resume(tmp_path))
    losses = [line["loss"] for line in read_metrics(tmp_path) if line["kind"] == "train"]
    assert len(losses) == 2
    assert all(map(isfinite, losses))
