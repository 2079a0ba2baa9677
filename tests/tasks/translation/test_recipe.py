"""Recipes are checked up front; every recipe in the repository is valid."""

from pathlib import Path

import pytest
import torch

from clearhead.config import parse_settings, settings_toml
from clearhead.errors import SettingsError
from clearhead.tasks.recipe import read_recipe
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import TranslationTask

RECIPES = sorted((Path(__file__).parents[3] / "recipes").rglob("*.toml"))
DATA = {"source": "en", "target": "de", "train": ["a.tsv"]}


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_can_be_read_and_survives_saving(path, tmp_path):
    recipe = read_recipe(path)
    saved = tmp_path / "config.toml"
    saved.write_text(settings_toml(recipe))
    assert read_recipe(saved) == recipe


def test_files_may_be_single_or_aligned():
    recipe = parse_settings(TranslationRecipe, {"data": DATA | {"train": ["a.tsv", ["b.en", "b.de"]]}})
    assert recipe.data.corpora[0].train == ("a.tsv", ("b.en", "b.de"))
    assert recipe.data.paths == ["a.tsv", ("b.en", "b.de")]
    assert recipe.data.languages == ("en", "de")


def test_a_single_corpus_may_be_written_with_or_without_corpora():
    alone, listed = (
        parse_settings(TranslationRecipe, {"data": data}) for data in (DATA, {"corpora": [DATA]})
    )
    assert alone == listed
    assert settings_toml(alone) == settings_toml(listed)


def test_several_corpora_list_each_direction_once():
    french = {"source": "en", "target": "fr", "train": ["b.tsv"]}
    corpora = [DATA | {"both": True}, french, DATA | {"train": ["c.tsv"]}]
    data = parse_settings(TranslationRecipe, {"data": {"corpora": corpora}}).data
    assert [str(direction) for direction in data.directions] == ["en-de", "de-en", "en-fr"]
    assert data.languages == ("en", "de", "fr")
    assert data.paths == ["a.tsv", "b.tsv", "c.tsv"]
    assert all("train" not in corpus for corpus in data.without_files()["corpora"])
    assert data.absolute().paths == [str(Path(file).absolute()) for file in ("a.tsv", "b.tsv", "c.tsv")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data": DATA | {"train": []}}, "data.train: is empty; name a file"),
        ({"data": DATA | {"train": "a.tsv"}}, "data.train: 'a.tsv' is not a list of files; write ['a.tsv']"),
        (
            {"data": DATA | {"test": [["a", "b", "c"]]}},
            "data.test: ['a', 'b', 'c'] is neither a file nor a list of two",
        ),
        (
            {"data": DATA | {"source": "EN"}},
            "data.source: language 'EN' is unknown; did you mean en (English)?",
        ),
        ({"data": {"corpora": []}}, "data.corpora: [] should have at least 1 item"),
        (
            {"data": {"corpora": [DATA, DATA | {"tain": []}]}},
            "data.corpora.1.tain: unknown setting (did you mean train?)",
        ),
        ({"data": DATA | {"trian": []}}, "data.trian: unknown setting (did you mean train?)"),
        (
            {"data": DATA | {"corpora": [DATA]}},
            "data: source is set beside corpora; move it into one of them",
        ),
        ({"data": DATA | {"hold_out": {"validation": -1}}}, "data.hold_out.validation: -1 should be"),
        (
            {"data": DATA | {"hold_out": {"validation": 0}}, "training": {"monitor": "bleu"}},
            "training.monitor is 'bleu', but no pairs are held out for validation",
        ),
        (
            {"data": DATA, "validation": {"sentences": 0}, "training": {"monitor": "bleu"}},
            "training.monitor is 'bleu', but validation.sentences is 0; set it to a few hundred",
        ),
        (
            {"data": DATA | {"hold_out": {"validation": 0}}, "training": {"average": {"of": "best"}}},
            "training.average.of is 'best', but no pairs are held out for validation",
        ),
        (
            {"data": DATA, "model": {"position": "fraction"}, "batches": {"kind": "packed"}},
            "batches.kind is 'packed', but fraction positions, the location score and recurrent models",
        ),
    ],
)
def test_wrong_and_contradictory_settings_are_refused(values, message):
    with pytest.raises(SettingsError) as refused:
        parse_settings(TranslationRecipe, values)
    assert message in str(refused.value)


def test_rows_are_packed_on_a_gpu_if_the_model_supports_it():
    def kind(on_gpu: bool, **settings) -> str:
        return parse_settings(TranslationRecipe, {"data": DATA, **settings}).resolved(on_gpu).batches.kind

    assert kind(on_gpu=True) == "packed"
    assert kind(on_gpu=False) == "padded"
    assert kind(on_gpu=True, model={"position": "fraction"}) == "padded"
    assert kind(on_gpu=True, model={"attention": {"score": "location"}}) == "padded"
    assert kind(on_gpu=False, batches={"kind": "packed"}) == "packed"


@pytest.mark.parametrize(
    ("on_gpu", "steps", "setting", "resolved"),
    [
        (True, 50_000, "auto", "on"),
        (True, 100, "auto", "off"),
        (False, 50_000, "auto", "off"),
        (False, 100, "on", "on"),
    ],
)
def test_a_run_is_compiled_on_a_gpu_if_it_is_long_enough(on_gpu, steps, setting, resolved):
    training = {"steps": steps, "compile": setting}
    recipe = parse_settings(TranslationRecipe, {"data": DATA, "training": training})
    assert recipe.resolved(on_gpu).training.compile == resolved


def card(recipe: TranslationRecipe, scores: dict[str, float]) -> str:
    return TranslationTask(recipe).card(torch.nn.Linear(10, 100, bias=False), 500, scores)


def test_a_card_names_languages_data_and_scores():
    files = ["tatoeba-en-de", "mine.tsv", ["b.en", "b.de"]]
    recipe = parse_settings(TranslationRecipe, {"data": DATA | {"train": files}})
    text = card(recipe, {"loss": 1.5, "bleu": 30.0})
    assert text.startswith("# English to German\n")
    assert "width 512, ffn_width 2048, 6 + 6 layers, 8 heads, bpe vocabulary, 1,000 parameters" in text
    assert "parameters; 500 training steps" in text
    assert "- tatoeba-en-de: 166,384 short everyday sentence pairs" in text
    assert "CC-BY 2.0" in text
    assert "- mine.tsv\n- b.en and b.de\n" in text
    assert "`validation.tsv` and `test.tsv` were held out from training." in text
    assert "- loss: 1.500\n- BLEU: 30.0\n" in text
    assert "- not measured" in card(recipe, {})


def test_the_card_of_several_directions_names_them_all():
    corpora = [DATA | {"both": True}, DATA | {"target": "fr", "train": ["tatoeba-en-fr"]}]
    recipe = parse_settings(TranslationRecipe, {"data": {"corpora": corpora}})
    text = card(recipe, {"loss": 1.5, "bleu": 30.0, "bleu en-de": 28.0})
    assert text.startswith("# English to German, German to English, English to French\n")
    assert "clearhead translate --model THIS-FOLDER --to de" in text
    assert "- a.tsv\n- tatoeba-en-fr: " in text
    assert "`test.de-en.tsv`, `validation.en-fr.tsv` and `test.en-fr.tsv` were held out" in text
    assert "- BLEU: 30.0\n- BLEU en-de: 28.0\n" in text


def test_a_mistake_in_the_only_corpus_is_reported_once():
    with pytest.raises(SettingsError) as caught:
        parse_settings(TranslationRecipe, {"data": {"corpora": [DATA | {"both": 3}]}})
    assert caught.value.problems == ("data.corpora.0.both: 3 is not true or false",)
