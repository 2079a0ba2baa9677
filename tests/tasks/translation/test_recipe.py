"""A recipe is checked as a whole before any work; the ones in the repository are whole."""

from pathlib import Path

import pytest

from clearhead.config import parse_settings, settings_toml
from clearhead.errors import SettingsError
from clearhead.tasks.card import model_card
from clearhead.tasks.recipes import read_recipe
from clearhead.tasks.translation.recipe import TranslationRecipe

RECIPES = sorted((Path(__file__).parents[3] / "recipes").rglob("*.toml"))
DATA = {"source": "en", "target": "de", "train": ["a.tsv"]}


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_can_be_read_and_comes_back_from_what_is_saved(path, tmp_path):
    recipe = read_recipe(path)
    saved = tmp_path / "config.toml"
    saved.write_text(settings_toml(recipe))
    assert read_recipe(saved) == recipe


def test_files_may_be_single_or_aligned_pairs():
    recipe = parse_settings(TranslationRecipe, {"data": DATA | {"train": ["a.tsv", ["b.en", "b.de"]]}})
    assert recipe.data.corpora[0].train == ("a.tsv", ("b.en", "b.de"))
    assert recipe.data.places == ["a.tsv", ("b.en", "b.de")]
    assert recipe.data.languages == ("en", "de")


def test_a_single_corpus_may_be_written_either_way():
    alone, listed = (
        parse_settings(TranslationRecipe, {"data": data}) for data in (DATA, {"corpora": [DATA]})
    )
    assert alone == listed
    assert settings_toml(alone) == settings_toml(listed)


def test_several_corpora_have_their_directions_each_once():
    french = {"source": "en", "target": "fr", "train": ["b.tsv"]}
    corpora = [DATA | {"both": True}, french, DATA | {"train": ["c.tsv"]}]
    data = parse_settings(TranslationRecipe, {"data": {"corpora": corpora}}).data
    assert [str(direction) for direction in data.directions] == ["en-de", "de-en", "en-fr"]
    assert data.languages == ("en", "de", "fr")
    assert data.places == ["a.tsv", "b.tsv", "c.tsv"]
    assert all("train" not in corpus for corpus in data.without_files()["corpora"])
    assert data.absolute().places == [str(Path(file).absolute()) for file in ("a.tsv", "b.tsv", "c.tsv")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data": DATA | {"train": []}}, "data.train: names no file"),
        ({"data": DATA | {"train": "a.tsv"}}, "data.train: 'a.tsv' is not a list of files; write ['a.tsv']"),
        (
            {"data": DATA | {"test": [["a", "b", "c"]]}},
            "data.test: ['a', 'b', 'c'] is neither a file nor two",
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
            "data: source stands beside corpora; move it into one of them",
        ),
        ({"data": DATA | {"hold_out": {"validation": -1}}}, "data.hold_out.validation: -1 should be"),
        (
            {"data": DATA | {"hold_out": {"validation": 0}}, "training": {"monitor": "bleu"}},
            "training.monitor is 'bleu', but no sentences are kept for validation",
        ),
        (
            {"data": DATA, "validation": {"sentences": 0}, "training": {"monitor": "bleu"}},
            "training.monitor is 'bleu', but validation.sentences is 0; let it be some hundred",
        ),
        (
            {"data": DATA | {"hold_out": {"validation": 0}}, "training": {"average": {"of": "best"}}},
            "training.average.of is 'best', but no sentences are kept for validation",
        ),
        (
            {"data": DATA, "model": {"position": "fraction"}, "batches": {"kind": "packed"}},
            "batches.kind is 'packed', but fraction positions and the location score need a row for each",
        ),
    ],
)
def test_what_is_wrong_or_contradicts_itself_is_refused(values, message):
    with pytest.raises(SettingsError) as refused:
        parse_settings(TranslationRecipe, values)
    assert message in str(refused.value)


def test_rows_are_packed_on_a_gpu_where_the_model_can_do_with_it():
    def kind(on_gpu: bool, **settings) -> str:
        return parse_settings(TranslationRecipe, {"data": DATA, **settings}).resolved(on_gpu).batches.kind

    assert kind(on_gpu=True) == "packed"
    assert kind(on_gpu=False) == "padded"
    assert kind(on_gpu=True, model={"position": "fraction"}) == "padded"
    assert kind(on_gpu=True, model={"attention": {"score": "location"}}) == "padded"
    assert kind(on_gpu=False, batches={"kind": "packed"}) == "packed"


@pytest.mark.parametrize(
    ("on_gpu", "steps", "options", "settled"),
    [
        (True, 50_000, "auto", "on"),
        (True, 100, "auto", "off"),
        (False, 50_000, "auto", "off"),
        (False, 100, "on", "on"),
    ],
)
def test_a_run_is_compiled_on_a_gpu_where_that_pays(on_gpu, steps, options, settled):
    training = {"steps": steps, "compile": options}
    recipe = parse_settings(TranslationRecipe, {"data": DATA, "training": training})
    assert recipe.resolved(on_gpu).training.compile == settled


def test_a_card_tells_languages_data_and_scores():
    files = ["tatoeba-en-de", "mine.tsv", ["b.en", "b.de"]]
    recipe = parse_settings(TranslationRecipe, {"data": DATA | {"train": files}})
    card = model_card(recipe, 1234567, 500, {"loss": 1.5, "bleu": 30.0})
    assert card.startswith("# English to German\n")
    assert (
        "1,234,567 parameters, width 512, 6 + 6 layers, 8 heads, bpe vocabulary; 500 training steps" in card
    )
    assert "- tatoeba-en-de: 166,384 short everyday sentence pairs" in card
    assert "CC-BY 2.0" in card
    assert "- mine.tsv\n- b.en and b.de\n" in card
    assert "- loss per token 1.50\n- BLEU 30.00\n" in card
    assert "- not measured" in model_card(recipe, 1, 1, {})


def test_the_card_of_many_directions_names_them_all():
    corpora = [DATA | {"both": True}, DATA | {"target": "fr", "train": ["tatoeba-en-fr"]}]
    recipe = parse_settings(TranslationRecipe, {"data": {"corpora": corpora}})
    card = model_card(recipe, 1, 1, {"loss": 1.5, "bleu": 30.0, "bleu en-de": 28.0})
    assert card.startswith("# English to German, German to English, English to French\n")
    assert "clearhead translate --model THIS-FOLDER --to de" in card
    assert "- a.tsv\n- tatoeba-en-fr: " in card
    assert "`test.de-en.tsv`, `validation.en-fr.tsv` and `test.en-fr.tsv` beside this card" in card
    assert "- BLEU 30.00\n- BLEU en-de 28.00\n" in card


def test_a_mistake_in_the_only_corpus_is_said_once():
    with pytest.raises(SettingsError) as caught:
        parse_settings(TranslationRecipe, {"data": {"corpora": [DATA | {"both": 3}]}})
    assert caught.value.problems == ("data.corpora.0.both: 3 is not true or false",)
