"""The translation of a text depends on the text and the options, not on the texts beside it."""

import inspect
import itertools
import random

import pytest
import torch

import clearhead
from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.models import Translator, TranslatorConfig
from clearhead.tasks.load import load
from clearhead.tasks.translation import search
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import Sampling, SearchConfig, TranslateOptions
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TEXTS = [
    "one two",
    "",
    "three four five six seven",
    "eight",
    "  ",
    "nine zero one",
    "two two two two two two two two two two",
    "unknown words three",
    "one two",
]
OPTIONS = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4},
    "n-best": {"beam": 4, "nbest": 3},
    "penalties": {"beam": 2, "length_penalty": 0.0, "repetition_penalty": 1.3, "no_repeat": 2},
    "prefix": {"prefix": "7"},
}


@pytest.fixture(scope="module")
def model(number_model) -> TranslationModel:
    return load(number_model)


def assert_same(found: clearhead.Translation, expected: clearhead.Translation) -> None:
    """The same texts, with scores that differ only by rounding errors."""
    assert [found.source, found.text, *map(str, found.nbest)] == [
        expected.source,
        expected.text,
        *map(str, expected.nbest),
    ]
    scores, others = ([one.score for one in (whole, *whole.nbest)] for whole in (found, expected))
    assert scores == pytest.approx(others, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("budget", [10, 4096])
def test_a_text_is_translated_the_same_alone_and_in_a_batch(model, options, budget, monkeypatch):
    alone = [model.translate(text, **options) for text in TEXTS]
    monkeypatch.setattr(search, "BATCH_TOKENS", budget)
    order = random.Random(3).sample(range(len(TEXTS)), len(TEXTS))
    batched = model.translate([TEXTS[number] for number in order], **options)
    for number, found in zip(order, batched, strict=True):
        assert_same(found, alone[number])


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("sampling", [None, Sampling(temperature=2.0, seed=7)])
def test_a_stream_gives_the_same_translations_as_a_list(model, batch_size, sampling):
    expected = model.translate(TEXTS, sampling=sampling)
    options = TranslateOptions(sampling=sampling)
    for several in (model.stream, model.translations):
        streamed = list(several(iter(TEXTS), batch_size=batch_size, options=options))
        for found, one in zip(streamed, expected, strict=True):
            assert_same(found, one)


def test_an_endless_stream_is_translated_as_it_comes(model):
    endless = itertools.cycle(["one two", "", "three"])
    found = itertools.islice(model.stream(endless, batch_size=2), 7)
    assert [one.source for one in found] == ["one two", "", "three", "one two", "", "three", "one two"]


def test_blank_texts_stay_blank(model):
    blank = model.translate(["", " ", "\t\n", "\u00a0"])
    assert [str(one) for one in blank] == ["", "", "", ""]
    assert model.translate([]) == []
    assert model.translate("").nbest == ()


def test_a_string_gives_one_translation_and_a_list_gives_a_list(model):
    one = model.translate("one two")
    assert isinstance(one, clearhead.Translation)
    assert str(one) == one.text == "1 2"
    assert one.complete
    assert not one.too_long
    assert one.score < 0
    assert one.sum_log_prob < 0
    assert [str(same) for same in model.translate(["one two"])] == ["1 2"]


def test_n_best_translations_are_sorted_and_the_first_is_the_translation(model):
    found = model.translate("one two three", beam=5, nbest=5)
    scores = [one.score for one in found.nbest]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in found.nbest}) > 1
    first = found.nbest[0]
    assert (first.text, first.score) == (found.text, found.score)


def test_a_translation_starts_with_the_prefix(model):
    for text in ("one two", "three four five"):
        assert model.translate(text, prefix="9 8").text.startswith("9 8")
    continued = model.translate("one two three", prefix="1")
    assert continued.text == model.translate("one two three").text


def test_no_repeat_forbids_repeated_ngrams(model):
    assert model.translate("two two two", no_repeat=1, beam=1).text.split().count("2") == 1


def test_sampling_depends_only_on_the_seed_and_the_number_of_the_text(model):
    def sampled(texts, seed):
        return [str(one) for one in model.translate(texts, sampling=Sampling(temperature=3.0, seed=seed))]

    texts = ["one two three"] * 6
    assert sampled(texts, 1) == sampled(texts, 1)
    assert len(set(sampled(texts, 1))) > 1
    # The number of a text is added to the seed, so a text can be sampled again alone.
    assert sampled(texts, 1)[4] == sampled(texts[:1], 5)[0]
    assert sampled(texts, 1)[:3] == sampled(texts[:3], 1)


def test_sampling_leaves_the_global_random_generator_untouched(model):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    model.translate("one", sampling=Sampling())
    assert torch.equal(torch.get_rng_state(), before)


def test_top_1_sampling_is_greedy_search(model):
    texts = ["one two", "three four five"]
    sampled = model.translate(texts, sampling=Sampling(top_k=1))
    assert [str(one) for one in sampled] == [str(one) for one in model.translate(texts, beam=1)]


def test_the_search_settings_of_the_model_are_the_default(model):
    assert (model.search.beam, model.search.length_penalty) == (5, 0.6)
    assert_same(
        model.translate("one two three"), model.translate("one two three", beam=5, length_penalty=0.6)
    )


def test_a_text_that_is_too_long_is_refused_by_number(model):
    assert model.max_length == 15
    assert model.translate("one " * 15).text
    message = r"\('one one .*…'\): 16 tokens, but the model takes at most 15; split it"
    with pytest.raises(TextError, match=f"text 2 {message}"):
        model.translate(["two", "one " * 16])
    texts = ["two", "three", "four", "one " * 16, "five"]
    stream = model.stream(texts, batch_size=2)
    assert [next(stream).source for _ in range(5)] == texts
    with pytest.raises(TextError, match=f"text 4 {message}; texts too long: 1"):
        next(stream)


def test_translations_mark_texts_that_are_too_long(model):
    texts = ["two", "one " * 16, "three four"]
    found = list(model.translations(texts, batch_size=2))
    assert [(one.source, one.text, one.too_long, one.complete) for one in found] == [
        ("two", "2", False, True),
        ("one " * 16, "", True, False),
        ("three four", "3 4", False, True),
    ]


def test_an_error_in_the_input_comes_after_the_translations_before_it(model):
    def texts():
        yield "one two"
        yield "three four"
        raise TextError("line 3: is broken")

    for batch_size in (1, 2, 10):
        stream = model.stream(texts(), batch_size=batch_size)
        assert [str(next(stream)), str(next(stream))] == ["1 2", "3 4"]
        with pytest.raises(TextError, match="line 3: is broken"):
            next(stream)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam: 0 should be at least 1"),
        ({"nbest": 6}, "nbest: 6 should be from 1 to the beam, 5"),
        ({"nbest": 2, "sampling": Sampling()}, "nbest: 2 needs beam search; sample with several seeds"),
        ({"no_repeat": -1}, "no_repeat: -1 should be at least 0"),
        ({"length_penalty": -0.5}, ": -0.5 should be from 0 to 10"),
        ({"length_penalty": float("inf")}, ": inf should be from 0 to 10"),
        ({"repetition_penalty": float("nan")}, r"repetition_penalty: nan should be from 0\.01 to 100"),
        ({"beam": 2, "sampling": Sampling()}, "beam: 2 has no effect on sampling; leave it out"),
        ({"length_penalty": 0.5, "sampling": Sampling()}, r"length_penalty: 0\.5 has no effect on sampling"),
        ({"prefix": [3]}, "prefix: 3 is not the id of a text token"),
    ],
)
def test_wrong_options_are_refused_by_name(model, options, message):
    for texts in ("one", "", []) if "prefix" not in options else ("one",):
        with pytest.raises(SettingsError, match=message):
            model.translate(texts, **options)


def test_options_are_checked_when_they_are_made():
    for options, message in (
        ({"beam": 0}, "beam: 0 should be at least 1"),
        ({"length_penalty": 11.0}, ": 11.0 should be from 0 to 10"),
        ({"nbest": 3, "sampling": Sampling()}, "nbest: 3 needs beam search"),
    ):
        with pytest.raises(SettingsError, match=message):
            TranslateOptions(**options)


def test_seeds_outside_the_range_of_torch_are_refused():
    for seed in (-1, 2**63):
        with pytest.raises(SettingsError, match=f"seed: {seed} should be from 0 to"):
            Sampling(seed=seed)


def test_options_are_keyword_arguments_that_tools_can_see():
    for method in (TranslationModel.translate, TranslationModel.stream, TranslationModel.translations):
        parameters = inspect.signature(method).parameters
        assert not [one for one in parameters.values() if one.kind is one.VAR_KEYWORD]
    parameters = inspect.signature(TranslationModel.translate).parameters
    options = {name: one.default for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert options == vars(TranslateOptions())
    with pytest.raises(TypeError, match="nonsense"):
        TranslationModel.translate(None, "one", nonsense=1)  # pyright: ignore


class CountingTokenizer:
    """A tokenizer that records every text it encodes."""

    def __init__(self, tokenizer):
        self.tokenizer, self.texts = tokenizer, []

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def encode(self, text):
        self.texts.append(text)
        return self.tokenizer.encode(text)

    def encode_batch(self, texts):
        self.texts.extend(texts)
        return self.tokenizer.encode_batch(texts)


def test_each_text_is_tokenised_once(number_model):
    model = load(number_model)
    counting = model.tokenizer = CountingTokenizer(model.tokenizer)
    texts = [f"{text} {text}" for text in ("one", "two", "three", "four", "five")]
    too_long = [*texts, " ".join(["six"] * 16)]
    for translate, encoded in (
        (lambda: model.translate(texts, beam=2), texts),
        (lambda: model.translate(texts, sampling=Sampling()), texts),
        (lambda: list(model.stream(texts, batch_size=2)), texts),
        (lambda: list(model.translations(too_long, "de")), too_long),
        (lambda: model.explain(texts[0]), texts[:1]),
    ):
        counting.texts.clear()
        translate()
        assert counting.texts == encoded


def test_unknown_target_languages_are_refused(model):
    assert model.directions == (("en", "de"),)
    assert_same(model.translate("one two", to="de"), model.translate("one two"))
    with pytest.raises(TextError, match=r"^to fr: this model translates en-de only"):
        model.translate("one two", to="fr")


@pytest.mark.parametrize(
    ("language", "hint"),
    [("german", " (did you mean de?)"), ("DE", " (did you mean de?)"), ("fr", ""), ("qq", "")],
)
def test_the_code_of_a_misspelt_language_is_suggested(model, language, hint):
    with pytest.raises(TextError) as caught:
        next(model.stream([], to=language))
    assert str(caught.value) == f"to {language}: this model translates en-de only{hint}"


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no trained model here"):
        clearhead.load(tmp_path)


def test_capture_works_on_a_loaded_model(model):
    before = model.translate("one two")
    with clearhead.capture(model.model) as trace:
        model.translate("one two", beam=1)
    assert any("cross_attention" in name for name in trace)
    assert_same(model.translate("one two"), before)


def test_letters_that_the_tokenizer_cannot_spell_are_reported_once(first_edition_model, caplog):
    model = load(first_edition_model)
    model.translate(["I like muži.", "I am tired.", "Fine 漢."], beam=1)
    assert [record.getMessage() for record in caplog.records] == [
        f"the tokenizer of {first_edition_model} cannot spell 2 of 3 texts: "
        '"muži." becomes "mui.", "漢." becomes "."'
    ]
    caplog.clear()
    list(model.stream(["I like muži."] * 3, batch_size=1, options=TranslateOptions(beam=1)))
    assert len(caplog.records) == 1
    assert "3 of 3 texts" in caplog.text
    caplog.clear()
    model.translate("I am tired.")
    assert not caplog.records


def test_a_translator_normalizes_what_its_tokenizer_keeps():
    tokenizer = Tokenizer.train(["one two three"] * 3, TokenizerConfig(vocabulary=600))
    model = Translator(TranslatorConfig.model_validate({"preset": "tiny", "max_length": 30}), tokenizer.size)
    translator = TranslationModel(model, tokenizer, [Direction("en", "de")], SearchConfig())
    spaced = " one\ttwo \u00a0three\u200b\n"
    assert tokenizer.decode(tokenizer.encode(spaced)) == spaced
    assert translator.encode([spaced, "  "]) == [tokenizer.encode("one two three"), []]
    texts = translator.explain(spaced, target="one\u00a0two").sides
    plain = translator.explain("one two three", target="one two").sides
    assert [[token.id for token in side] for side in texts.values()] == [
        [token.id for token in side] for side in plain.values()
    ]


def test_the_precision_may_change_at_any_time(number_model):
    model = load(number_model)
    text = model.translate("one two").text
    before = model.engine
    model.precision = "bf16"
    assert "decodes in bf16" in repr(model)
    assert model.engine is not before
    assert model.engine.readout_weight.dtype == torch.bfloat16
    model.precision = "fp32"
    assert model.translate("one two").text == text
    with pytest.raises(SettingsError, match="precision: 'int4' is not one of"):
        model.precision = "int4"
    with pytest.raises(SettingsError, match="precision: 'int4' is not one of"):
        load(number_model, precision="int4")


def test_a_missing_gpu_is_named(number_model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="device: 'cuda', but torch finds no GPU here; use 'cpu'"):
        load(number_model, "cuda")
