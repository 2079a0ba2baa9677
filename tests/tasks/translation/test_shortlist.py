"""A vocabulary shortlist: what it learns, and that searches choose among its tokens only."""

import numpy as np
import pytest
import torch

from clearhead.accel import int8
from clearhead.data.store import TokenSequences
from clearhead.errors import DataError, ModelError, SettingsError
from clearhead.models import Translator
from clearhead.tasks.load import load
from clearhead.tasks.translation import lexicon
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.lexicon import translation_probabilities
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import Sampling
from clearhead.tasks.translation.shortlist import LanguageShortlist, Shortlist
from clearhead.tasks.translation.shortlist_engine import ShortlistEngine

NO_INT8 = pytest.mark.skipif(not int8.supported(), reason="no int8")
PRECISIONS = ["fp32", "bf16", pytest.param("int8", marks=NO_INT8)]
TEXTS = ["one two", "three four five six seven", "eight", "", "two two two two two two", "odd words three"]
SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "nbest": 4},
    "prefix": {"beam": 2, "prefix": "7"},
    "penalties": {"beam": 2, "repetition_penalty": 1.3, "no_repeat": 2},
    "sampling": {"sampling": Sampling(temperature=0.8, top_p=0.9, seed=3)},
}
EN_DE = Direction("en", "de")
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def same_for_all(model: TranslationModel, language: str, tokens: list[int]) -> Shortlist:
    """A shortlist with these tokens for every text."""
    none = torch.full((model.tokenizer.size, 1), -1, dtype=torch.int32)
    shortlist = LanguageShortlist(none, torch.tensor(tokens, dtype=torch.int32))
    return Shortlist(model.tokenizer.fingerprint, {language: shortlist})


def whole(model: TranslationModel, language: str) -> Shortlist:
    """A shortlist of the whole vocabulary."""
    return same_for_all(model, language, list(range(model.tokenizer.size)))


@pytest.fixture
def model(number_model) -> TranslationModel:
    return load(number_model)


@pytest.mark.parametrize("limit", [lexicon.MAX_LINKS, 2000])
def test_model_1_finds_the_translation_of_every_word(numbers, limit, monkeypatch):
    monkeypatch.setattr(lexicon, "MAX_LINKS", limit)
    pairs = numbers(300)
    words = sorted({word for pair in pairs for side in pair for word in side.split()})
    sides = [[[words.index(word) for word in pair[side].split()] for pair in pairs] for side in (0, 1)]
    source, target, probabilities = translation_probabilities(*map(TokenSequences.of, sides), len(words))
    table = np.zeros((len(words) + 1, len(words)))
    table[source, target] = probabilities
    assert table.sum(1)[np.unique(source)] == pytest.approx(1)
    best = {word: words[table[words.index(word)].argmax()] for word in DIGITS}
    assert best == {word: str(digit) for digit, word in enumerate(DIGITS)}


def test_probabilities_equal_expectation_maximisation_in_words():
    rng = np.random.default_rng(0)
    pairs = [[rng.integers(0, 6, length) for length in rng.integers(1, 5, 2)] for _ in range(20)]
    table = dict.fromkeys(((s, t) for source, target in pairs for s in (*source, 6) for t in target), 1.0)
    for _ in range(lexicon.ITERATIONS):
        counts = dict.fromkeys(table, 0.0)
        for source, target in pairs:
            for t in target:
                total = sum(table[s, t] for s in (*source, 6))
                for s in (*source, 6):
                    counts[s, t] += table[s, t] / total
        table = {
            (s, t): count / sum(other for (word, _), other in counts.items() if word == s)
            for (s, t), count in counts.items()
        }
    sides = ([pair[side].tolist() for pair in pairs] for side in (0, 1))
    source, target, probabilities = translation_probabilities(*map(TokenSequences.of, sides), 6)
    found = dict(zip(zip(source.tolist(), target.tolist(), strict=True), probabilities, strict=True))
    assert found == pytest.approx({(int(s), int(t)): value for (s, t), value in table.items()})


def test_the_empty_word_explains_what_nothing_translates():
    # Token 9 is in every target, whatever the source is.
    pairs = [[0], [1], [2], [3]], [[4, 9], [5, 9], [6, 9], [7, 9]]
    source, target, probabilities = translation_probabilities(*map(TokenSequences.of, pairs), 10)
    empty_word = dict(zip(target[source == 10], probabilities[source == 10], strict=True))
    assert max(empty_word, key=empty_word.__getitem__) == 9
    word = dict(zip(target[source == 2], probabilities[source == 2], strict=True))
    assert max(word, key=word.__getitem__) == 6


@pytest.mark.accel
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_shortlist_of_all_tokens_changes_nothing(number_model, options, precision):
    full, limited = load(number_model, precision=precision), load(number_model, precision=precision)
    limited.shortlist = whole(full, "de")
    assert isinstance(limited.engine, ShortlistEngine)
    ours, expected = limited.translate(TEXTS, **options), full.translate(TEXTS, **options)
    for one, other in zip(ours, expected, strict=True):
        assert [best.ids for best in one.nbest] == [best.ids for best in other.nbest]
        scores = [best.score for best in other.nbest]
        assert [best.score for best in one.nbest] == pytest.approx(scores, rel=1e-5, abs=1e-5)


@pytest.mark.accel
def test_each_text_of_a_batch_has_its_own_tokens(model, numbers):
    model.shortlist = Shortlist.learn(model.tokenizer, {EN_DE: numbers(300)})
    sources = model.encode(["one two", "three four five"])
    batch = model.engine.vocabulary(sources)
    for possible, source in zip(~batch._impossible, sources, strict=True):
        assert batch.tokens[possible].tolist() == model.engine.vocabulary([source]).tokens.tolist()


@pytest.mark.accel
def test_a_translation_has_no_tokens_beyond_the_shortlist(model):
    model.shortlist = same_for_all(model, "de", model.encode(["7"])[0])
    texts = [str(one) for one in model.translate(["one two", "three"], beam=2)]
    assert all(set(text.split()) <= {"7", "one", "two", "three"} for text in texts), texts


@pytest.mark.accel
def test_a_learned_shortlist_translates_as_well_alone_and_in_a_batch(model, numbers, tmp_path):
    pairs = numbers(300)
    texts = [source for source, _ in pairs[:60]]
    plain = [one.ids for one in model.translate(texts)]
    Shortlist.learn(model.tokenizer, {EN_DE: pairs}).save(tmp_path / "shortlist")
    model.shortlist = Shortlist.load(tmp_path / "shortlist")
    batch = [one.ids for one in model.translate(texts)]
    assert batch == [model.translate(text).ids for text in texts]
    assert sum(a == b for a, b in zip(batch, plain, strict=True)) >= 57
    model.shortlist = None
    assert [one.ids for one in model.translate(texts)] == plain


@pytest.mark.accel
def test_only_the_languages_of_a_shortlist_are_limited(multilingual_model):
    model, plain = load(multilingual_model), load(multilingual_model)
    model.shortlist = same_for_all(model, "fr", [])
    assert str(model.translate("three one", to="de")) == str(plain.translate("three one", to="de"))
    assert str(model.translate("three one", to="fr")) != str(plain.translate("three one", to="fr"))


@pytest.mark.accel
def test_new_weights_and_precisions_are_used(model):
    model.shortlist = whole(model, "de")
    before = model.translate("one two")
    with torch.no_grad():
        model.model.readout_weight[list(before.ids)] = 0
    assert model.translate("one two").ids != before.ids
    fresh = TranslationModel(model.model, model.tokenizer, model.directions, model.search)
    for precision in ("bf16", "fp32"):
        model.precision = fresh.precision = precision
        assert [one.ids for one in model.translate(TEXTS)] == [one.ids for one in fresh.translate(TEXTS)]


@pytest.mark.parametrize("options", [{}, {"sampling": Sampling(seed=1)}])
def test_pictures_search_the_whole_vocabulary(model, options):
    plain = model.explain("one two", **options).output
    model.shortlist = same_for_all(model, "de", [])
    assert model.explain("one two", **options).output == plain


@pytest.mark.accel
def test_other_languages_of_a_shortlist_are_ignored(multilingual_model):
    model, plain = load(multilingual_model), load(multilingual_model)
    fr, other = (same_for_all(model, "fr", []).languages["fr"] for _ in range(2))
    model.shortlist = Shortlist(model.tokenizer.fingerprint, {"fr": fr, "cs": other})
    assert str(model.translate("three one", to="de")) == str(plain.translate("three one", to="de"))


@pytest.mark.accel
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_learned_readout_bias_is_kept(model, precision):
    torch.manual_seed(0)
    config = model.model.config.model_copy(update={"readout_bias": "learned"})
    biased = Translator(config, model.tokenizer.size).eval()
    torch.nn.init.normal_(biased.readout_bias)
    plain, limited = (
        TranslationModel(biased, model.tokenizer, model.directions, model.search) for _ in range(2)
    )
    plain.precision = limited.precision = precision
    limited.shortlist = whole(limited, "de")
    assert [one.ids for one in limited.translate(TEXTS)] == [one.ids for one in plain.translate(TEXTS)]


def test_a_shortlist_for_another_model_is_refused(model, multilingual_model, tmp_path):
    with pytest.raises(SettingsError, match="belongs to another tokenizer; make one for this model"):
        load(multilingual_model).shortlist = whole(model, "de")
    with pytest.raises(SettingsError, match="was made for fr, but the model translates into de"):
        model.shortlist = whole(model, "fr")
    with pytest.raises(SettingsError, match=r"'a file' is not a Shortlist; use Shortlist\.load"):
        model.shortlist = "a file"
    assert repr(whole(model, "de")) == "Shortlist(into de)"
    with pytest.raises(DataError, match="pairs: none into de; give pairs with text"):
        Shortlist.learn(model.tokenizer, {EN_DE: [("one", " ")]})
    with pytest.raises(ModelError, match="no such file"):
        Shortlist.load(tmp_path / "missing")


def test_a_file_that_is_no_shortlist_is_refused(number_model):
    with pytest.raises(ModelError, match="not a shortlist; make one with clearhead shortlist"):
        Shortlist.load(number_model / "model.safetensors")
    with pytest.raises(ModelError, match="not a safetensors file"):
        Shortlist.load(number_model / "config.toml")
    with pytest.raises(ModelError, match="is a folder; name a file that clearhead shortlist wrote"):
        Shortlist.load(number_model)


def test_without_a_fast_engine_it_says_that_it_is_not_used(model, number_model, monkeypatch, caplog):
    from clearhead.models import engine

    monkeypatch.setattr(engine, "enabled", lambda: False)
    model.shortlist = same_for_all(model, "de", [])
    assert "shortlist: no effect; it needs a Transformer without window or ALiBi, on a CPU" in caplog.text
    assert str(model.translate("one two")) == str(load(number_model).translate("one two"))
