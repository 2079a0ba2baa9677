"""Counts by sorted integers equal counts by dictionaries."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from clearhead.data.ngrams import NgramCounts, continuation_counts, count_ngrams, count_skips
from clearhead.text.tokenizer import BOS, EOS

VOCABULARY = 12


@pytest.fixture(scope="module")
def sentences() -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [[BOS, *rng.integers(4, VOCABULARY, length).tolist(), EOS] for length in rng.integers(0, 9, 60)]


@pytest.fixture(scope="module")
def text(sentences) -> NDArray[np.int64]:
    return np.array([token for sentence in sentences for token in sentence])


def by_words(tables: list[NgramCounts], order: int) -> dict[tuple[int, ...], int]:
    """The table of an order with the words of each n-gram instead of its key."""
    words: list[tuple[int, ...]] = [()]
    for table in tables[:order]:
        words = [(*words[key // VOCABULARY], key % VOCABULARY) for key in table.keys.tolist()]
    return dict(zip(words, tables[order - 1].counts.tolist(), strict=True))


def ngrams(sentences: list[list[int]], order: int) -> Counter[tuple[int, ...]]:
    return Counter(
        tuple(one[first : first + order]) for one in sentences for first in range(len(one) - order + 1)
    )


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_n_grams_are_counted_within_sentences(sentences, text, order):
    expected = ngrams(sentences, order)
    expected.pop((BOS,), None)  # is never predicted
    found = by_words(count_ngrams(text, order, VOCABULARY), order)
    assert {words: count for words, count in found.items() if count} == expected


def test_lower_orders_count_the_distinct_words_before_an_n_gram(sentences, text):
    tables = continuation_counts(count_ngrams(text, 4, VOCABULARY), VOCABULARY)
    for order in (1, 2, 3):
        expected = Counter(words[1:] for words in ngrams(sentences, order + 1))
        if order > 1:
            own = ngrams(sentences, order)
            expected |= Counter({words: count for words, count in own.items() if words[0] == BOS})
        found = by_words(tables, order)
        assert {words: count for words, count in found.items() if count} == expected
    assert by_words(tables, 4) == ngrams(sentences, 4)


@pytest.mark.parametrize("reach", [1, 3, 20])
def test_skips_count_each_earlier_word_once(sentences, text, reach):
    expected: Counter[tuple[int, int, int]] = Counter()
    for sentence in sentences:
        for here in range(3, len(sentence)):
            before = sentence[max(1, here - 1 - reach) : here - 1]
            expected.update({(sentence[here - 1], word, sentence[here]) for word in before})
    found = count_skips(text, reach, VOCABULARY)
    keys = found.keys.tolist()
    triples = [(key // VOCABULARY**2, key // VOCABULARY % VOCABULARY, key % VOCABULARY) for key in keys]
    assert dict(zip(triples, found.counts.tolist(), strict=True)) == expected


def test_keys_are_sorted_and_never_overflow():
    """Six words of a large vocabulary have more bits than an integer."""
    large = 1 << 20
    text = np.array([BOS, *(large - 1 - number for number in range(8)), EOS])
    tables = count_ngrams(text, 6, large)
    assert [len(table.keys) for table in tables[1:]] == [9, 8, 7, 6, 5]
    assert all((np.diff(table.keys) > 0).all() for table in tables)
