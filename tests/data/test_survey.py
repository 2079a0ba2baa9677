"""Documents are counted, and split without overlap."""

import numpy as np
import pytest

from clearhead.data.sources.plain_text import TextChunk
from clearhead.data.survey import Survey, split_text
from clearhead.errors import DataError


def chunks(*documents: str, size: int = 7):
    for text in documents:
        parts = [text[start : start + size] for start in range(0, len(text), size)]
        yield from (TextChunk(part, number == len(parts) - 1) for number, part in enumerate(parts))


def joined(stream) -> list[str]:
    found, text = [], ""
    for chunk in stream:
        text += chunk.text
        if chunk.last:
            found.append(text)
            text = ""
    assert not text
    return found


MANY = [f"document {number} has {'very ' * (number % 7)}many words" for number in range(200)]


def test_a_survey_counts_documents_characters_and_bytes():
    survey = Survey.of(chunks("schön", "was"))
    assert (len(survey), survey.characters, survey.bytes) == (2, 8, 9)
    assert survey.alphabet == frozenset("schönwas")
    assert survey.lengths.tolist() == [5, 3]


def test_a_single_text_is_split_by_position():
    text = "".join(chr(97 + number % 26) for number in range(1003))
    split = split_text(Survey.of(chunks(text)), 0.1, 1 << 30)
    assert joined(split.part(chunks(text), "train")) == [text[: int(1003 * 0.9)]]
    assert joined(split.part(chunks(text), "validation")) == [text[int(1003 * 0.9) :]]


def test_many_documents_are_split_whole():
    split = split_text(Survey.of(chunks(*MANY)), 0.1, 1 << 30)
    train, validation = (joined(split.part(chunks(*MANY), part)) for part in ("train", "validation"))
    assert sorted(train + validation) == sorted(MANY)
    share = sum(map(len, validation)) / sum(map(len, MANY))
    assert 0.08 < share < 0.12


def test_equal_documents_stay_together():
    twice = MANY + MANY
    split = split_text(Survey.of(chunks(*twice)), 0.1, 1 << 30)
    held = split.cuts == 0
    assert held.any()
    assert np.array_equal(held[: len(MANY)], held[len(MANY) :])


def test_a_survey_counts_copies():
    assert Survey.of(chunks("was", "das", "was", "was")).copies == 2
    assert Survey.of(chunks(*MANY)).copies == 0


@pytest.mark.parametrize("copies", [1, 2, 7, 30, 500])
def test_a_frequent_document_neither_fills_validation_nor_empties_training(copies):
    for seed in range(20):
        texts = [*MANY, *[MANY[seed]] * copies]
        split = split_text(Survey.of(chunks(*texts), seed), 0.1, 1 << 30)
        train, validation = (joined(split.part(chunks(*texts), part)) for part in ("train", "validation"))
        assert not set(train) & set(validation)
        assert sorted(train + validation) == sorted(texts)
        assert 0.08 < sum(map(len, set(validation))) / sum(map(len, MANY)) < 0.12
        assert sum(map(len, validation)) <= 0.1 * sum(map(len, texts)) + 1


def test_equally_frequent_documents_are_split_like_single_ones():
    once, thrice = (split_text(Survey.of(chunks(*MANY * times)), 0.1, 1 << 30).cuts for times in (1, 3))
    assert np.array_equal(np.tile(once, 3), thrice)


def test_copies_of_one_document_lose_the_same_end():
    texts = [MANY[0]] * 50
    split = split_text(Survey.of(chunks(*texts)), 0.1, 1 << 30)
    assert 0.8 * len(MANY[0]) < split.cuts[0] < len(MANY[0])
    assert set(split.cuts) == {split.cuts[0]}


def test_copies_of_short_documents_do_not_exceed_the_share():
    short = [str(number) * 10 for number in range(100, 400)]
    texts = [str(number) * 5000 for number in range(10, 20)] + short * 100
    lengths = np.array([len(text) for text in texts])
    held = split_text(Survey.of(chunks(*texts, size=1 << 20)), 0.05, 1 << 30).cuts == 0
    assert 0.02 < lengths[held].sum() / lengths.sum() <= 0.05


def test_the_end_of_a_text_does_not_exceed_the_maximum():
    split = split_text(Survey.of(chunks("x" * 10_000)), 0.1, 50)
    assert split.cuts.tolist() == [9950]
    assert split_text(Survey.of(chunks("x" * 100)), 0.0, 50).cuts.tolist() == [100]


@pytest.mark.parametrize("most", [60, 500, 1 << 30])
def test_whole_documents_do_not_exceed_the_maximum(most):
    lengths = np.array([len(text) for text in MANY])
    for seed in range(20):
        held = split_text(Survey.of(chunks(*MANY), seed), 0.1, most).cuts == 0
        assert 0 < lengths[held].sum() <= min(most, 0.1 * lengths.sum() + 1)


def test_one_short_document_among_long_ones_is_not_enough_for_validation():
    texts = [str(number) * 1000 for number in range(10, 30)] + ["short"]
    split = split_text(Survey.of(chunks(*texts)), 0.1, 1000)
    kept = sum(map(len, joined(split.part(chunks(*texts), "validation"))))
    assert 900 < kept <= 1000


def test_another_seed_holds_out_other_documents():
    ours, theirs = (split_text(Survey.of(chunks(*MANY), seed), 0.1, 1 << 30).cuts for seed in (1, 2))
    assert not np.array_equal(ours, theirs)


def test_a_text_too_short_to_split_is_rejected():
    with pytest.raises(DataError, match="1 characters are too few to hold some out for validation"):
        split_text(Survey.of(chunks("x")), 0.1, 100)
