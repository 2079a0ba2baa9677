"""Which tokens translate which: IBM model 1, trained by expectation maximisation (Brown et al. 1993)."""

import numpy as np
from numpy.typing import NDArray

from clearhead.data.store import TokenSequences

ITERATIONS = 4
# Pairs of tokens in sentence pairs that are looked at; more would take memory and change little.
MAX_LINKS = 20_000_000


def translation_probabilities(
    sources: TokenSequences, targets: TokenSequences, vocabulary: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The probability t(target | source) of all pairs of tokens that occur in a pair of sentences.

    Returns source tokens, target tokens and probabilities. The token numbered `vocabulary` is the empty word,
    which each source has: it explains target tokens that translate nothing.
    """
    lengths = sources.lengths.astype(np.int64) + 1
    links = lengths * targets.lengths
    if links.sum() > MAX_LINKS:
        order = np.random.default_rng(1).permutation(len(links))
        some = order[links[order].cumsum() <= MAX_LINKS]
        sources, targets = sources.gather(some), targets.gather(some)
        lengths, links = lengths[some], links[some]
    # Each target position is linked with all source positions of its sentence, then with the empty word.
    sentence = np.repeat(np.arange(len(links), dtype=np.int32), links)
    within = np.arange(len(sentence), dtype=np.int32) - (links.cumsum() - links)[sentence].astype(np.int32)
    offset = within % lengths[sentence].astype(np.int32)
    target_positions = targets.offsets[sentence] + within // lengths[sentence].astype(np.int32)
    positions = np.minimum(sources.offsets[sentence] + offset, len(sources.ids) - 1)
    source_tokens = sources.ids[positions].astype(np.int64)
    source_tokens[offset == lengths[sentence] - 1] = vocabulary
    del sentence, within, offset, positions
    keys, number = np.unique(
        source_tokens * vocabulary + targets.ids[target_positions].astype(np.int64), return_inverse=True
    )
    source, target = np.divmod(keys, vocabulary)
    probabilities = np.ones(len(keys))
    for _ in range(ITERATIONS):
        weights = probabilities[number]
        weights /= np.bincount(target_positions, weights)[target_positions]
        counts = np.bincount(number, weights)
        probabilities = counts / np.bincount(source, counts)[source]
    return source, target, probabilities
