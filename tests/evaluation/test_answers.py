"""Exact match and F1 are those of SQuAD's official script."""

import numpy as np
import pytest

from clearhead.evaluation.answers import best_over, exact_match, f1, normalize_answer

WORDS = ["the", "a", "an", "Oil", "crisis,", "of", "1973", "U.S.", "(OAPEC)", "embargo"]


def texts(count: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, size=random.integers(1, 6))) for _ in range(count)]


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Oil-Crisis!", "oilcrisis"),
        ("an apple a day", "apple day"),
        ("Theatre of the absurd", "theatre of absurd"),
        ("U.S. $12", "us 12"),
        ("the", ""),
    ],
)
def test_answers_are_normalised_as_in_the_script(text: str, normalized: str):
    assert normalize_answer(text) == normalized
    assert normalize_answer(normalized) == normalized


@pytest.mark.parametrize(
    ("answer", "right", "em", "score"),
    [
        ("October 1973", "in October 1973", 0.0, 0.8),  # precision 1, recall 2/3
        ("the OAPEC.", "OAPEC", 1.0, 1.0),
        ("nearly $12 nearly", "nearly 12", 0.0, 0.8),  # a word counts once for each copy
        ("Egypt", "Syria", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("Egypt", "", 0.0, 0.0),
        ("the", "a", 1.0, 1.0),
    ],
)
def test_scores_equal_those_computed_by_hand(answer: str, right: str, em: float, score: float):
    assert exact_match(answer, right) == em
    assert f1(answer, right) == pytest.approx(score)


def test_f1_is_symmetric_and_one_exactly_for_the_same_bag_of_words():
    for answer, right in zip(texts(300, 0), texts(300, 1), strict=True):
        assert f1(answer, right) == pytest.approx(f1(right, answer))
        assert exact_match(answer, right) <= f1(answer, right)
        same = sorted(normalize_answer(answer).split()) == sorted(normalize_answer(right).split())
        assert (f1(answer, right) == pytest.approx(1)) == same


def test_the_best_of_several_right_answers_counts():
    assert best_over(f1, "1973", ["October 1973", "1973"]) == 1
    assert best_over(exact_match, "", []) == 1
    assert best_over(exact_match, "1973", []) == 0
    assert best_over(f1, "1973", ["the", "October 1973"]) == pytest.approx(2 / 3)
