"""One model for many directions: tags select the target language, and no text can contain a tag."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.config import apply_overrides, parse_settings, read_settings, read_toml
from clearhead.data.bpe_dropout import BPEDropout
from clearhead.data.sources.corpus import Pair
from clearhead.errors import ModelError, TextError
from clearhead.evaluation.bleu import bleu
from clearhead.tasks.load import load
from clearhead.tasks.run import train
from clearhead.tasks.translation.data import Corpus, learn_tokenizer, store
from clearhead.tasks.translation.directions import (
    Direction,
    check_target,
    chosen,
    file_name,
    saved_directions,
    tag_ids,
    tags,
)
from clearhead.tasks.translation.evaluate import Validator
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import translation_loss
from clearhead.text.tokenizer import Tokenizer

ALL = tuple(Direction(*name.split("-")) for name in ("en-de", "de-en", "en-fr", "fr-en"))
PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def model(multilingual_model) -> TranslationModel:
    return load(multilingual_model)


def pairs_of(folder: Path, part: str, direction: Direction) -> list[Pair]:
    lines = (folder / f"{part}.{direction}.tsv").read_text().splitlines()
    return [Pair(*line.split("\t")) for line in lines]


def test_one_model_translates_unseen_sentences_in_every_direction(model, multilingual_model):
    assert model.directions == ALL
    for direction in ALL:
        sources, references = zip(*pairs_of(multilingual_model, "test", direction), strict=True)
        translations = model.translate(list(sources), to=direction.target)
        correct = sum(str(one) == expected for one, expected in zip(translations, references, strict=True))
        assert correct >= 0.8 * len(references), direction


def test_a_text_is_translated_into_the_requested_language(model):
    assert str(model.translate("three one four", to="de")) == "3 1 4"
    assert str(model.translate("three one four", to="fr")) == "c a d"
    [streamed] = model.stream(["three one four"], to="fr")
    assert streamed.text == "c a d"


@pytest.mark.parametrize(
    ("to", "message"),
    [
        (None, "to: name the language to translate into; this model translates en-de, de-en, en-fr, fr-en"),
        ("nl", "to nl: this model translates en-de, de-en, en-fr, fr-en only"),
        ("french", "to french: this model translates en-de, de-en, en-fr, fr-en only (did you mean fr?)"),
    ],
)
def test_a_missing_or_unknown_language_is_refused_with_all_directions(model, to, message):
    with pytest.raises(TextError) as refused:
        model.translate("one", to=to)
    assert str(refused.value) == message


def test_a_direction_is_chosen_by_the_given_languages():
    assert chosen(ALL, target="fr") == ("en", "fr")
    assert chosen(ALL, "de", "en") == ("de", "en")
    assert chosen(ALL[:1]) == ("en", "de")
    with pytest.raises(TextError, match=r"^source: name a language; this model translates en-de, de-en"):
        chosen(ALL, target="en")
    with pytest.raises(TextError, match=r"^target: name a language; this model translates"):
        chosen(ALL)
    with pytest.raises(TextError, match=r"^source de target fr: this model translates .* only$"):
        chosen(ALL, "de", "fr")


def test_there_are_tags_only_with_several_target_languages():
    assert tags(ALL) == {"de": "<2de>", "en": "<2en>", "fr": "<2fr>"}
    assert tags([Direction("de", "en"), Direction("fr", "en")]) == {}
    assert check_target([Direction("de", "en"), Direction("fr", "en")], None) == "en"
    assert file_name("test", ALL[0], ALL) == "test.en-de.tsv"
    assert file_name("test", ALL[0], ALL[:1]) == "test.tsv"


def test_a_tag_in_the_input_is_plain_text(model):
    ids = model.tokenizer.encode("<2fr> three one")
    assert not set(ids) & set(tag_ids(ALL, model.tokenizer).values())


def test_the_tag_takes_one_position_of_the_source(model, multilingual_model):
    max_length = read_toml(multilingual_model / "config.toml")["model"]["max_length"]
    assert model.max_length == max_length - 2
    model.translate("one " * model.max_length, to="de")
    with pytest.raises(TextError, match=f"but the model takes at most {model.max_length}"):
        model.translate("one " * (model.max_length + 1), to="de")


def test_a_tokenizer_without_the_tags_is_refused(multilingual_model, number_model, tmp_path):
    shutil.copytree(number_model, tmp_path / "mixed")
    shutil.copy(multilingual_model / "config.toml", tmp_path / "mixed")
    with pytest.raises(ModelError, match="has no <2de>; it belongs to a model for other languages"):
        load(tmp_path / "mixed")


def test_directions_are_read_from_incomplete_settings():
    one = {"source": "en", "target": "de"}
    assert saved_directions({"data": one}) == ALL[:1]
    assert saved_directions({"data": {"corpora": [one | {"both": True}, one]}}) == ALL[:2]
    for odd in ({}, {"data": 3}, {"data": {"corpora": 3}}, {"data": {"corpora": [3]}}):
        assert saved_directions(odd) == (("und", "und"),)


# Training data and held-out pairs


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, multilingual_recipe) -> TranslationRecipe:
    return read_settings(TranslationRecipe, multilingual_recipe(tmp_path_factory.mktemp("recipe")))


def test_an_english_sentence_is_in_only_one_part_over_all_directions(recipe):
    corpus = Corpus(recipe.data, 1)
    english: dict[str, set[str]] = {"train": set()}
    for pair, _ in corpus.directed("train", {}):
        english["train"] |= {side for side in pair if side[0].isalpha() and len(side.split()[0]) > 1}
    for part in ("validation", "test"):
        kept = corpus.by_direction(part)
        assert list(kept) == list(ALL)
        assert [len(some) for some in kept.values()] == [recipe.data.hold_out.model_dump()[part]] * 4
        assert kept[ALL[1]] == [pair.swapped for pair in kept[ALL[0]]]
        english[part] = {pair.source for one in (ALL[0], ALL[2]) for pair in kept[one]}
    assert sum(map(len, english.values())) == len(set().union(*english.values()))
    assert len(english["train"]) > 300


def test_a_store_holds_every_pair_in_both_directions_with_the_tag_of_its_target(
    recipe, tmp_path, monkeypatch
):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path))
    corpus = Corpus(recipe.data, 1)
    tokenizer = learn_tokenizer(corpus, recipe)
    ids = tag_ids(recipe.data.directions, tokenizer)
    assert sorted(ids.values()) == [4, 5, 6]
    rows = store(corpus, "train", tokenizer, recipe)
    assert len(rows) == 2 * len(list(corpus.pairs("train")))
    language = {number: code for code, number in ids.items()}
    counts = dict.fromkeys(ids, 0)
    for row in range(len(rows)):
        source, target = (side.tolist() for side in rows[row])
        counts[language[source[0]]] += 1
        word = tokenizer.decode(target).split()[0]
        expected = "en" if len(word) > 1 else "de" if word.isdigit() else "fr"
        assert language[source[0]] == expected
        assert not set(target) & set(language)
    assert counts["en"] == counts["de"] + counts["fr"]


def test_the_tokenizer_is_trained_on_every_sentence_once(recipe):
    corpus = Corpus(recipe.data, 1)
    texts = list(corpus.texts(10_000))
    assert len(texts) == 2 * len(list(corpus.pairs("train")))
    assert len(list(corpus.texts(20))) == 40
    assert any("c" in text.split() for text in corpus.texts(20)), "a share of each corpus"


def test_tags_survive_bpe_dropout(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path))
    values = apply_overrides(recipe.model_dump(mode="json", exclude_none=True), ["model.max_length=64"])
    values["tokenizer"] = {"kind": "bpe", "vocabulary": 80, "dropout": 0.9}
    dropping = parse_settings(TranslationRecipe, values)
    corpus = Corpus(dropping.data, 1)
    tokenizer = learn_tokenizer(corpus, dropping)
    rows = store(corpus, "train", tokenizer, dropping)
    numbers = np.arange(200)
    split = BPEDropout(rows, tokenizer, 0.9, dropping.training.seed, dropping.model.max_tokens)
    source, target = split(3, numbers)
    changed_rows = 0
    for row in numbers:
        before, after = rows.source[row].tolist(), source[row].tolist()
        assert before[0] == after[0] in tag_ids(ALL, tokenizer).values()
        assert tokenizer.decode(before) == tokenizer.decode(after)
        assert tokenizer.decode(rows.target[row].tolist()) == tokenizer.decode(target[row].tolist())
        changed_rows += before != after
    assert changed_rows > 50


def test_validation_reports_bleu_of_each_direction_and_the_mean(model, multilingual_model):
    recipe = parse_settings(
        TranslationRecipe,
        apply_overrides(read_toml(multilingual_model / "config.toml"), ["validation.sentences=28"]),
    )
    held_out = {one: pairs_of(multilingual_model, "validation", one) for one in ALL}
    scores = Validator(held_out, model.tokenizer, recipe).measure(
        model.model, nullcontext(), translation_loss
    )
    for one in ALL:
        sources, references = ([pair[side] for pair in held_out[one][:14:2]] for side in (0, 1))
        translations = [str(found) for found in model.translate(sources, to=one.target, beam=1)]
        assert scores[f"bleu {one}"] == bleu(translations, references, one.target).value
    assert scores["bleu"] == pytest.approx(sum(scores[f"bleu {one}"] for one in ALL) / 4)


def test_one_corpus_in_both_directions_gives_a_tagged_model(tmp_path, multilingual_recipe):
    values = read_toml(multilingual_recipe(tmp_path, steps=2))
    values["data"]["corpora"].pop()
    recipe = parse_settings(TranslationRecipe, values)
    for _ in train(recipe, tmp_path / "out"):
        pass
    model = clearhead.load(tmp_path / "out")
    assert model.directions == ALL[:2]
    assert Tokenizer.load(tmp_path / "out" / "tokenizer.json").special_tokens[4:] == ("<2de>", "<2en>")
    assert {path.name for path in (tmp_path / "out").glob("test*")} == {"test.en-de.tsv", "test.de-en.tsv"}
