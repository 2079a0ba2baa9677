"""What a text gives depends on the text and the wishes, not on its company."""

import itertools
import random

import pytest
import torch

import clearhead
from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.tasks.load import load
from clearhead.tasks.translation import model as translation
from clearhead.tasks.translation.model import Sampling, TranslationModel

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
WISHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4},
    "several": {"beam": 4, "nbest": 3},
    "penalised": {"beam": 2, "alpha": 0.0, "repetition_penalty": 1.3, "no_repeat": 2},
    "begun": {"prefix": "7"},
}


@pytest.fixture(scope="module")
def model(number_model) -> TranslationModel:
    return load(number_model)


def assert_same(found: clearhead.Translation, expected: clearhead.Translation) -> None:
    """The same texts, with scores that differ by no more than rounding."""
    assert [found.source, found.text, *map(str, found.nbest)] == [
        expected.source,
        expected.text,
        *map(str, expected.nbest),
    ]
    scores, others = ([one.score for one in (whole, *whole.nbest)] for whole in (found, expected))
    assert scores == pytest.approx(others, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("options", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("budget", [10, 4096])
def test_a_text_alone_gives_what_it_gives_among_others(model, options, budget, monkeypatch):
    alone = [model.translate(text, **options) for text in TEXTS]
    monkeypatch.setattr(translation, "BATCH_TOKENS", budget)
    order = random.Random(3).sample(range(len(TEXTS)), len(TEXTS))
    batches_per_step = model.translate([TEXTS[place] for place in order], **options)
    for place, found in zip(order, batches_per_step, strict=True):
        assert_same(found, alone[place])


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_stream_gives_what_a_list_gives(model, at_once):
    for options in ({}, {"sampling": Sampling(temperature=2.0, seed=7)}):
        streamed = list(model.stream(iter(TEXTS), at_once, **options))
        for found, expected in zip(streamed, model.translate(TEXTS, **options), strict=True):
            assert_same(found, expected)


def test_a_stream_without_end_is_translated_as_it_comes(model):
    endless = itertools.cycle(["one two", "", "three"])
    found = itertools.islice(model.stream(endless, at_once=2), 7)
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
    assert one.score < 0
    assert one.log_probability < 0
    assert [str(same) for same in model.translate(["one two"])] == ["1 2"]


def test_the_best_are_in_order_and_the_first_is_the_translation(model):
    found = model.translate("one two three", beam=5, nbest=5)
    scores = [one.score for one in found.nbest]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in found.nbest}) > 1
    first = found.nbest[0]
    assert (first.text, first.score) == (found.text, found.score)


def test_a_prefix_begins_the_translation(model):
    for text in ("one two", "three four five"):
        assert model.translate(text, prefix="9 8").text.startswith("9 8")
    begun = model.translate("one two three", prefix="1")
    assert begun.text == model.translate("one two three").text


def test_no_run_of_tokens_comes_twice_where_that_is_forbidden(model):
    assert model.translate("two two two", no_repeat=1, beam=1).text.split().count("2") == 1


def test_drawing_depends_on_the_seed_and_the_place_alone(model):
    def draw(texts, seed):
        return [str(one) for one in model.translate(texts, sampling=Sampling(temperature=3.0, seed=seed))]

    texts = ["one two three"] * 6
    assert draw(texts, 1) == draw(texts, 1)
    assert len(set(draw(texts, 1))) > 1
    # The number of a text is added to the seed, so a text can be drawn again by itself.
    assert draw(texts, 1)[4] == draw(texts[:1], 5)[0]
    assert draw(texts, 1)[:3] == draw(texts[:3], 1)


def test_drawing_neither_uses_nor_changes_the_chance_of_others(model):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    model.translate("one", sampling=Sampling())
    assert torch.equal(torch.get_rng_state(), before)


def test_drawing_among_one_token_is_greedy_search(model):
    texts = ["one two", "three four five"]
    drawn = model.translate(texts, sampling=Sampling(top_k=1))
    assert [str(one) for one in drawn] == [str(one) for one in model.translate(texts, beam=1)]


def test_the_settings_of_the_model_are_the_default(model):
    assert (model.search.beam, model.search.length_penalty) == (5, 0.6)
    assert_same(
        model.translate("one two three"), model.translate("one two three", beam=5, length_penalty=0.6)
    )


def test_the_longest_text_is_taken_and_a_longer_one_refused_by_number(model):
    assert model.max_length == 15
    assert model.translate("one " * 15).text
    with pytest.raises(
        TextError, match=r"text 2 \('one one .*…'\): 16 tokens, and the model takes 15: split it"
    ):
        model.translate(["two", "one " * 16])
    stream = model.stream(["two", "three", "four", "one " * 16], at_once=2)
    assert [next(stream).source for _ in range(4)] == ["two", "three", "four", ""]
    with pytest.raises(TextError, match="text 4 "):
        next(stream)


def test_what_goes_wrong_while_reading_comes_after_what_was_read(model):
    def texts():
        yield "one two"
        yield "three four"
        raise TextError("line 3: is broken")

    for at_once in (1, 2, 10):
        stream = model.stream(texts(), at_once)
        assert [str(next(stream)), str(next(stream))] == ["1 2", "3 4"]
        with pytest.raises(TextError, match="line 3: is broken"):
            next(stream)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam: 0 should be at least 1"),
        ({"nbest": 6}, "nbest: 6 should be from 1 to the beam, 5"),
        ({"nbest": 2, "sampling": Sampling()}, "nbest: 2 goes with a beam; draw with several seeds instead"),
        ({"no_repeat": -1}, "no_repeat: -1 should be at least 0"),
        ({"alpha": -0.5}, "alpha: -0.5 should be from 0 to 10"),
        ({"alpha": float("inf")}, "alpha: inf should be from 0 to 10"),
        ({"repetition": float("nan")}, r"repetition_penalty: nan should be from 0\.01 to 100"),
        ({"beam": 2, "sampling": Sampling()}, "beam: 2 goes with a search, but drawing was asked for"),
        ({"alpha": 0.5, "sampling": Sampling()}, r"alpha: 0\.5 goes with a search"),
    ],
)
def test_wishes_that_contradict_are_refused(model, options, message):
    for texts in ("one", "", []):
        with pytest.raises(SettingsError, match=message):
            model.translate(texts, **options)


def test_seeds_that_torch_could_not_take_are_refused():
    for seed in (-1, 2**63):
        with pytest.raises(SettingsError, match=f"seed: {seed} should be from 0 to"):
            Sampling(seed=seed)


def test_the_languages_are_known_and_others_refused(model):
    assert model.directions == (("en", "de"),)
    assert_same(model.translate("one two", to="de"), model.translate("one two"))
    with pytest.raises(TextError, match=r"^to fr: this model translates en-de only"):
        model.translate("one two", to="fr")


@pytest.mark.parametrize(
    ("said", "hint"),
    [("german", " (did you mean de?)"), ("DE", " (did you mean de?)"), ("fr", ""), ("qq", "")],
)
def test_a_language_said_otherwise_gets_its_code_suggested(model, said, hint):
    with pytest.raises(TextError) as caught:
        next(model.stream([], to=said))
    assert str(caught.value) == f"to {said}: this model translates en-de only{hint}"


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no trained model here"):
        clearhead.load(tmp_path)


def test_capture_looks_into_a_loaded_model(model):
    before = model.translate("one two")
    with clearhead.capture(model.model) as trace:
        model.translate("one two", beam=1)
    assert any("cross_attention" in name for name in trace)
    assert_same(model.translate("one two"), before)
