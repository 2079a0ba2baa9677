"""Counting n-grams: sorted integer keys instead of dictionaries, so that a million words take a second."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.text.tokenizer import BOS, EOS

Ids = NDArray[np.integer[Any]]
Numbers = NDArray[np.int64]
"""A text is one array: <s>, the tokens of a sentence, </s>, <s>, …"""
# Three words must fit into one integer of 63 bits.
MAX_SKIP_VOCABULARY = 1 << 21


@dataclass(frozen=True)
class NgramCounts:
    """The n-grams of one order in sorted order, and how often each occurs.

    The key of an n-gram is `prefix * vocabulary + word`, where `prefix` is the index of its first words among
    the n-grams of the order below; for single words, the key is the word. So what follows a context is
    contiguous, and no key overflows, whatever the order.
    """

    keys: Numbers
    counts: Numbers


def count_ngrams(text: Ids, order: int, vocabulary: int) -> list[NgramCounts]:
    """The n-grams of each order from 1 up, within sentences; those of order 1 are the whole vocabulary."""
    tokens, last = text.astype(np.int64), _sentence_ends(text)
    words = np.bincount(tokens, minlength=vocabulary)
    words[BOS] = 0  # never predicted
    found = [NgramCounts(np.arange(vocabulary), words)]
    start, prefix = np.arange(len(tokens)), tokens
    for length in range(2, order + 1):
        inside = start + length - 1 <= last[start]
        start, prefix = start[inside], prefix[inside]
        keys, indices, counts = np.unique(
            prefix * vocabulary + tokens[start + length - 1], return_inverse=True, return_counts=True
        )
        found.append(NgramCounts(keys, counts))
        prefix = indices.reshape(-1)
    return found


def continuation_counts(counts: list[NgramCounts], vocabulary: int) -> list[NgramCounts]:
    """For Kneser-Ney: below the highest order, the number of distinct words before an n-gram.

    N-grams that begin with <s>, which nothing precedes, keep their own counts.
    """
    adjusted, begins = [], np.arange(vocabulary) == BOS
    for number, (table, suffix) in enumerate(zip(counts, _suffixes(counts, vocabulary), strict=False)):
        begins = begins[table.keys // vocabulary] if number else begins
        continued = np.bincount(suffix, minlength=len(table.keys))
        adjusted.append(NgramCounts(table.keys, np.where(begins, table.counts, continued)))
    return [*adjusted, counts[-1]]


def count_skips(text: Ids, reach: int, vocabulary: int) -> NgramCounts:
    """What follows each pair of words (most recent word, word some way before it in the sentence).

    The earlier word is up to `reach` words before the most recent one, and counts once however often it
    occurs there. The key is `(recent * vocabulary + earlier) * vocabulary + next`.
    """
    tokens = text.astype(np.int64)
    first = np.maximum.accumulate(np.where(tokens == BOS, np.arange(len(tokens)), 0))
    position = np.arange(len(tokens))
    pairs = []
    for distance in range(2, reach + 2):
        here = position[(position - distance > first) & (tokens != BOS)]
        pairs.append(here * vocabulary + tokens[here - distance])
    distinct, _ = np.unique(np.concatenate(pairs), return_counts=True)  # sorts; without counts it is slow
    here, earlier = np.divmod(distinct, vocabulary)
    keys = (tokens[here - 1] * vocabulary + earlier) * vocabulary + tokens[here]
    return NgramCounts(*np.unique(keys, return_counts=True))


def _suffixes(counts: list[NgramCounts], vocabulary: int) -> list[Numbers]:
    """For each order from 2 up, the index of each n-gram without its first word in the order below."""
    found = [counts[1].keys % vocabulary] if len(counts) > 1 else []
    for below, table in pairwise(counts[1:]):
        prefix, word = np.divmod(table.keys, vocabulary)
        found.append(np.searchsorted(below.keys, found[-1][prefix] * vocabulary + word))
    return found


def _sentence_ends(text: Ids) -> Numbers:
    """For each position, that of the </s> of its sentence."""
    ends = np.flatnonzero(text == EOS)
    return ends[np.searchsorted(ends, np.arange(len(text)))]
