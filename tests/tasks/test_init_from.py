"""What a run takes over from other models: their tokenizer, their weights, their knowledge."""

import shutil
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.checkpoint import WEIGHTS, load_checkpoint
from clearhead.config import changed, parse_settings, read_toml
from clearhead.errors import ClearheadError, ModelError, SettingsError
from clearhead.tasks.events import Validation
from clearhead.tasks.recipes import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import Translating
from clearhead.tasks.zoo import BUILT_IN
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import Report

SHORT = ["training.steps=8", "training.save_every=5", "training.validate_every=8", "training.report_every=2"]
NARROWER = ["model.width=24", "model.ffn_width=48"]


@pytest.fixture
def recipe(tmp_path, number_recipe):
    values = read_toml(number_recipe(tmp_path))

    def make(*changes: str) -> TranslationRecipe:
        return parse_settings(TranslationRecipe, changed(values, [*SHORT, *changes]))

    return make


def losses(events) -> list[float]:
    return [event.loss for event in events if isinstance(event, Validation)]


def begun(folder: Path) -> str:
    return f'training.init_from="{folder}"'


def taught(folder: Path, weight: float = 0.5) -> str:
    return f'training.distillation={{teacher = "{folder}", weight = {weight}}}'


def test_a_run_begins_where_another_ended(tmp_path, recipe, number_model):
    low = ['training.schedule={kind = "constant", learning_rate = 1e-6}']
    fresh = losses(train(recipe(*low), tmp_path / "fresh"))
    going_on = losses(train(recipe(*low, begun(number_model)), tmp_path / "on"))
    assert going_on[0] < fresh[0] / 4
    assert (tmp_path / "on" / Tokenizer.FILE).read_bytes() == (number_model / Tokenizer.FILE).read_bytes()


def test_a_pupil_learns_from_a_wider_teacher(tmp_path, recipe, number_model):
    long = ["training.steps=70", "training.validate_every=70"]
    out = tmp_path / "pupil"
    (loss,) = losses(train(recipe(*long, *NARROWER, taught(number_model, 1.0)), out))
    assert loss < 1.5, "no label was shown to it"
    names = load_file(out / WEIGHTS)
    assert names.keys() == load_file(number_model / WEIGHTS).keys()
    assert names["readout_weight"].shape[1] == 24


@pytest.mark.parametrize("both", [False, True])
def test_interrupted_and_resumed_without_what_it_began_with_equals_undisturbed(
    both, tmp_path, recipe, number_model
):
    earlier = shutil.copytree(number_model, tmp_path / "earlier")
    changes = [
        "model.dropout=0.1",
        "model.attention.dropout=0.1",
        begun(earlier),
        *([taught(number_model)] if both else []),
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


def test_a_model_of_another_shape_is_refused_by_the_setting(tmp_path, recipe, number_model):
    with pytest.raises(
        ModelError, match=r"training.init_from: .*model has model.width 32, this recipe 24; make"
    ):
        list(train(recipe(*NARROWER, begun(number_model)), tmp_path / "run"))
    assert not (tmp_path / "run").exists(), "it is said before any work"
    heads = "model.attention={heads = 4}"
    with pytest.raises(ModelError, match=r"model.attention \{.*heads = 2.*\}, this recipe \{.*heads = 4"):
        list(train(recipe(heads, begun(number_model)), tmp_path / "other"))


def test_what_a_recipe_does_not_say_of_its_model_is_as_in_the_one_it_begins_with(recipe, number_model):
    plain = recipe(begun(number_model)).model_dump(mode="json", exclude_none=True)
    begins = load_checkpoint(number_model).model.config
    suppressed_tokens = parse_recipe({name: value for name, value in plain.items() if name != "model"})
    assert inherited(suppressed_tokens).model == begins
    little = parse_recipe(plain | {"model": {"dropout": 0.25, "attention": {"dropout": 0.125}}})
    attention = begins.attention.model_copy(update={"dropout": 0.125})
    assert inherited(little).model == begins.model_copy(update={"dropout": 0.25, "attention": attention})


def test_a_model_of_another_kind_is_no_beginning(recipe, number_model):
    values = {"kind": "language", "data": {"train": ["x.txt"]}, "training": {"init_from": str(number_model)}}
    with pytest.raises(
        ModelError, match=r"training.init_from: .* of kind translator, this recipe needs a gpt"
    ):
        inherited(parse_recipe(values))


@pytest.mark.parametrize("named", [begun, taught])
def test_a_folder_without_a_model_is_named_with_its_setting(named, tmp_path, recipe):
    setting = named(tmp_path / "nowhere").partition("=")[0]
    with pytest.raises(ModelError, match=f"{setting}.*nowhere: no such model folder; built-in models"):
        list(train(recipe(named(tmp_path / "nowhere")), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_begins_with_a_model_in_the_package_by_its_name(recipe):
    plain = recipe(begun(Path("en-de"))).model_dump(mode="json", exclude={"model"}, exclude_none=True)
    settled = inherited(parse_recipe(plain))
    assert settled.training.init_from == str(BUILT_IN["en-de-fr"])
    assert settled.tokenizer == load_checkpoint(BUILT_IN["en-de-fr"]).processor.config


def test_a_model_of_several_languages_is_still_asked_for_the_one_it_goes_on_with(
    recipe, multilingual_model, tmp_path
):
    plain = recipe(begun(multilingual_model)).model_dump(mode="json", exclude={"model"}, exclude_none=True)
    going_on = inherited(parse_recipe(plain))
    for _ in train(going_on, tmp_path / "one"):
        pass
    one = clearhead.load(tmp_path / "one")
    assert [str(direction) for direction in one.directions] == ["en-de"]
    assert one.lead(None) == [one.tokenizer.id("<2de>")]
    assert isinstance(going_on, TranslationRecipe)
    store = Translating(going_on).store(one.tokenizer)
    assert {store.source[row].tolist()[0] for row in range(len(store))} == set(one.lead(None))


def test_the_settings_tell_of_the_tokenizer_that_is_taken_over(recipe, number_model, monkeypatch):
    monkeypatch.chdir(number_model.parent)
    other = 'tokenizer={kind = "bpe", vocabulary = 300}'
    settled = inherited(recipe(other, begun(Path(number_model.name)), taught(Path(number_model.name))))
    assert settled.tokenizer == load_checkpoint(number_model).processor.config
    assert settled.training.init_from == str(number_model)
    assert settled.training.distillation
    assert settled.training.distillation.teacher == str(number_model)
    dropping = 'tokenizer={kind = "bpe", vocabulary = 300, dropout = 0.1}'
    with pytest.raises(
        SettingsError, match=r"tokenizer: dropout drops merges, which kind word does not have"
    ):
        inherited(recipe(dropping, begun(number_model)))


def with_another_tokenizer(folder: Path, copy: Path) -> Path:
    """A copy of a model whose tokenizer is not the one it was trained with."""
    shutil.copytree(folder, copy)
    Tokenizer.train(["1 2 3"], TokenizerConfig(kind="word", vocabulary=40)).save(copy / Tokenizer.FILE)
    return copy


def test_whoever_has_another_tokenizer_does_not_teach(tmp_path, recipe, number_model):
    other = with_another_tokenizer(number_model, tmp_path / "other")
    with pytest.raises(ModelError, match=r"teacher: .*other has another tokenizer than training.init_from"):
        list(train(recipe(begun(number_model), taught(other)), tmp_path / "run"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.max_length=17", "takes 16 tokens, this model 17; lower model.max_length"),
        ("training.distillation.weight=0.0", "training.distillation.weight: 0.0 should be greater than 0"),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused(change, message, tmp_path, recipe, number_model):
    with pytest.raises(ClearheadError, match=message):
        list(train(recipe(taught(number_model), change), tmp_path / "run"))


def test_a_teacher_knows_the_languages(recipe, number_model, multilingual_model):
    inherited(recipe(taught(multilingual_model)))
    with pytest.raises(ModelError, match="translates en-de, not de-en; name a teacher that does"):
        inherited(recipe(taught(number_model), "data.both=true"))


def test_a_tokenizer_without_the_tags_of_a_run_is_refused_by_the_setting(recipe, number_model):
    with pytest.raises(ModelError, match=r"training\.begin: tokenizer: has no <2de>"):
        inherited(recipe(begun(number_model), "data.both=true"))
