"""Exact match and F1 of answers, as in the official script of SQuAD (Rajpurkar et al. 2016)."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without punctuation, articles and extra spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(answer: str, right: str) -> float:
    """1 if both are the same after normalisation, else 0."""
    return float(normalize_answer(answer) == normalize_answer(right))


def f1(answer: str, right: str) -> float:
    """The harmonic mean of precision and recall of words; for "no answer", whether both are none."""
    found, wanted = normalize_answer(answer).split(), normalize_answer(right).split()
    if not found or not wanted:
        return float(found == wanted)
    common = sum((Counter(found) & Counter(wanted)).values())
    # Not simplified: the script rounds in this order.
    precision, recall = common / len(found), common / len(wanted)
    return 2 * precision * recall / (precision + recall) if common else 0.0


def best_over(score: Callable[[str, str], float], answer: str, right: Sequence[str]) -> float:
    """The score by the most similar of the right answers; without any, "" is right.

    As in the script, answers without words do not count where others have some.
    """
    worded = [one for one in right if normalize_answer(one)] or [""]
    return max(score(answer, one) for one in worded)
