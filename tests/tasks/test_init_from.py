"""Runs that start from a trained model, or learn from a teacher."""

import shutil
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.checkpoint import WEIGHTS, load_checkpoint
from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.errors import ClearheadError, ModelError, SettingsError
from clearhead.tasks.events import Validation
from clearhead.tasks.recipe import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.tasks.task import RunContext
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import TranslationTask
from clearhead.tasks.zoo import BUILT_IN
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import Ranks, Report, StateFolder

SHORT = ["training.steps=8", "training.save_every=5", "training.validate_every=8", "training.report_every=2"]
NARROWER = ["model.width=24", "model.ffn_width=48"]


@pytest.fixture
def recipe(tmp_path, number_recipe):
    values = read_toml(number_recipe(tmp_path))

    def make(*changes: str) -> TranslationRecipe:
        return parse_settings(TranslationRecipe, apply_overrides(values, [*SHORT, *changes]))

    return make


def losses(events) -> list[float]:
    return [event.loss for event in events if isinstance(event, Validation)]


def init_from(folder: Path) -> str:
    return f'training.init_from="{folder}"'


def taught_by(folder: Path, weight: float = 0.5) -> str:
    return f'training.distillation={{teacher = "{folder}", weight = {weight}}}'


def test_a_run_starts_with_the_weights_of_another_model(tmp_path, recipe, number_model):
    low = ['training.schedule={kind = "constant", learning_rate = 1e-6}']
    fresh = losses(train(recipe(*low), tmp_path / "fresh"))
    continued = losses(train(recipe(*low, init_from(number_model)), tmp_path / "on"))
    assert continued[0] < fresh[0] / 4
    assert (tmp_path / "on" / Tokenizer.FILE).read_bytes() == (number_model / Tokenizer.FILE).read_bytes()


def test_a_student_learns_from_a_wider_teacher(tmp_path, recipe, number_model):
    long = ["training.steps=70", "training.validate_every=70"]
    out = tmp_path / "student"
    (loss,) = losses(train(recipe(*long, *NARROWER, taught_by(number_model, 1.0)), out))
    assert loss < 1.5, "it sees no labels"
    names = load_file(out / WEIGHTS)
    assert names.keys() == load_file(number_model / WEIGHTS).keys()
    assert names["readout_weight"].shape[1] == 24


@pytest.mark.parametrize("both", [False, True])
def test_a_resumed_run_does_not_need_the_model_it_started_from(both, tmp_path, recipe, number_model):
    earlier = shutil.copytree(number_model, tmp_path / "earlier")
    changes = [
        "model.dropout=0.1",
        "model.attention.dropout=0.1",
        init_from(earlier),
        *([taught_by(number_model)] if both else []),
    ]
    for _ in train(recipe(*changes), tmp_path / "straight"):
        pass
    for event in train(recipe(*changes), tmp_path / "interrupted"):
        if isinstance(event, Report) and event.step == 6:
            signal.raise_signal(signal.SIGINT)
    shutil.rmtree(earlier)
    for _ in resume(tmp_path / "interrupted"):
        pass
    straight, resumed = (load_file(tmp_path / run / WEIGHTS) for run in ("straight", "interrupted"))
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


def test_a_model_of_another_architecture_is_refused(tmp_path, recipe, number_model):
    with pytest.raises(
        ModelError, match=r"training.init_from: .*model has model.width 32, this recipe 24; make"
    ):
        list(train(recipe(*NARROWER, init_from(number_model)), tmp_path / "run"))
    assert not (tmp_path / "run").exists(), "refused before any work"
    heads = "model.attention={heads = 4}"
    with pytest.raises(ModelError, match=r"model.attention \{.*heads = 2.*\}, this recipe \{.*heads = 4"):
        list(train(recipe(heads, init_from(number_model)), tmp_path / "other"))


def test_missing_model_settings_are_those_of_the_model_to_start_from(recipe, number_model):
    plain = recipe(init_from(number_model)).model_dump(mode="json", exclude_none=True)
    start = load_checkpoint(number_model).model.config
    without = parse_recipe({name: value for name, value in plain.items() if name != "model"})
    assert without.inherited().model == start
    little = parse_recipe(plain | {"model": {"dropout": 0.25, "attention": {"dropout": 0.125}}})
    attention = start.attention.model_copy(update={"dropout": 0.125})
    assert little.inherited().model == start.model_copy(update={"dropout": 0.25, "attention": attention})


def test_a_model_of_another_kind_is_refused(number_model):
    values = {"kind": "language", "data": {"train": ["x.txt"]}, "training": {"init_from": str(number_model)}}
    with pytest.raises(ModelError, match=r"init_from: .* a translator, but this recipe trains a gpt"):
        parse_recipe(values).inherited()


@pytest.mark.parametrize("named", [init_from, taught_by])
def test_a_folder_without_a_model_is_named_with_its_setting(named, tmp_path, recipe):
    setting = named(tmp_path / "nowhere").partition("=")[0]
    with pytest.raises(ModelError, match=f"{setting}.*nowhere: no such model folder; built-in models"):
        list(train(recipe(named(tmp_path / "nowhere")), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_can_start_from_a_built_in_model_by_name(recipe):
    plain = recipe(init_from(Path("en-de"))).model_dump(
        mode="json", exclude={"model", "tokenizer"}, exclude_none=True
    )
    resolved = parse_recipe(plain).inherited()
    assert resolved.training.init_from == str(BUILT_IN["en-de-fr"])
    assert resolved.tokenizer == load_checkpoint(BUILT_IN["en-de-fr"]).processor.config


def test_a_multilingual_model_keeps_its_tags_when_trained_on_one_direction(
    recipe, multilingual_model, tmp_path
):
    plain = recipe(init_from(multilingual_model)).model_dump(
        mode="json", exclude={"model"}, exclude_none=True
    )
    continued = parse_recipe(plain).inherited()
    for _ in train(continued, tmp_path / "one"):
        pass
    one = clearhead.load(tmp_path / "one")
    assert [str(direction) for direction in one.directions] == ["en-de"]
    assert one.tag(None) == [one.tokenizer.id("<2de>")]
    task = TranslationTask(continued)
    list(task.prepare(RunContext(tmp_path / "one", Ranks(), StateFolder(tmp_path / "states"))))
    assert {task.store.source[row].tolist()[0] for row in range(len(task.store))} == set(one.tag(None))


def test_the_settings_describe_the_inherited_tokenizer(recipe, number_model, monkeypatch):
    monkeypatch.chdir(number_model.parent)
    resolved = recipe(init_from(Path(number_model.name)), taught_by(Path(number_model.name))).inherited()
    assert resolved.tokenizer == load_checkpoint(number_model).processor.config
    assert resolved.training.init_from == str(number_model)
    assert resolved.training.distillation
    assert resolved.training.distillation.teacher == str(number_model)
    dropping = "tokenizer={dropout = 0.1}"
    with pytest.raises(SettingsError, match=r"tokenizer: .*dropout"):
        recipe(dropping, init_from(number_model)).inherited()


@pytest.mark.parametrize("inherit", [init_from, taught_by])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tokenizer={vocabulary = 300}", "tokenizer.vocabulary: 300 has no effect, because the tokenizer is"),
        ('tokenizer={kind = "bpe"}', "tokenizer.kind: bpe has no effect"),
        ("tokenizer={lowercase = true}", "tokenizer.lowercase: True has no effect"),
    ],
)
def test_settings_beside_an_inherited_tokenizer_are_refused(recipe, number_model, inherit, change, message):
    with pytest.raises(SettingsError, match=message) as error:
        recipe(change, inherit(number_model)).inherited()
    assert "\n" not in str(error.value)


def with_another_tokenizer(folder: Path, copy: Path) -> Path:
    """A copy of a model with a tokenizer that it was not trained with."""
    shutil.copytree(folder, copy)
    Tokenizer.train(["1 2 3"], TokenizerConfig(kind="word", vocabulary=40)).save(copy / Tokenizer.FILE)
    return copy


def test_a_teacher_with_another_tokenizer_is_refused(tmp_path, recipe, number_model):
    other = with_another_tokenizer(number_model, tmp_path / "other")
    with pytest.raises(ModelError, match=r"teacher: the tokenizer of .*other differs from that of "):
        list(train(recipe(init_from(number_model), taught_by(other)), tmp_path / "run"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.max_length=17", "takes at most 16 tokens, this model 17; lower model.max_length"),
        ("training.distillation.weight=0.0", "training.distillation.weight: 0.0 should be greater than 0"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(change, message, tmp_path, recipe, number_model):
    with pytest.raises(ClearheadError, match=message):
        list(train(recipe(taught_by(number_model), change), tmp_path / "run"))


def test_a_teacher_must_translate_all_directions(recipe, number_model, multilingual_model):
    recipe(taught_by(multilingual_model)).inherited()
    with pytest.raises(ModelError, match="translates en-de, not de-en; name another teacher"):
        recipe(taught_by(number_model), "data.both=true").inherited()


def test_a_tokenizer_without_the_tags_of_the_run_is_refused(recipe, number_model):
    with pytest.raises(ModelError, match=r"training\.init_from: tokenizer: has no <2de>"):
        recipe(init_from(number_model), "data.both=true").inherited()


def test_letters_that_an_inherited_tokenizer_cannot_spell_are_reported_before_training(
    first_edition_model, tmp_path
):
    pairs = tmp_path / "pairs.en-fr.tsv"
    pairs.write_text("".join(f"Man number {n} is here.\tmuži jsou tu {n}\n" for n in range(40)))
    data = {"source": "en", "target": "fr", "train": [str(pairs)], "hold_out": {"validation": 2, "test": 2}}
    recipe = parse_recipe(
        {"kind": "translation", "data": data, "training": {"init_from": str(first_edition_model)}}
    ).inherited()
    context = RunContext(tmp_path / "run", Ranks(), StateFolder(tmp_path / "states"))
    (tmp_path / "run").mkdir()
    notes = [note.text for note in TranslationTask(recipe).prepare(context)]
    assert (
        'the tokenizer of old cannot spell 36 of 72 lines: "muži" becomes "mui"; '
        "clearhead tune extends a tokenizer"
    ) in notes
