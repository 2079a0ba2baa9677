"""Which tokens translate which: IBM model 1, trained by expectation maximisation (Brown et al. 1993)."""

import numpy as np
from numpy.typing import NDArray

from clearhead.data.store import TokenSequences

ITERATIONS = 4
# Maximum number of links between source and target tokens; more take memory and change little.
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
        kept = order[links[order].cumsum() <= MAX_LINKS]
        sources, targets = sources.gather(kept), targets.gather(kept)
        lengths, links = lengths[kept], links[kept]
    # Each source ends with the empty word.
    source_ids = np.insert(sources.ids.astype(np.int64), sources.offsets[1:], vocabulary)
    source_starts = sources.offsets[:-1] + np.arange(len(sources))
    # Each target position is linked with all source positions of its sentence.
    sentence = np.repeat(np.arange(len(links), dtype=np.int32), links)
    link = np.arange(len(sentence), dtype=np.int32) - (links.cumsum() - links)[sentence].astype(np.int32)
    width = lengths[sentence].astype(np.int32)
    target_positions = targets.offsets[sentence] + link // width
    source_tokens = source_ids[source_starts[sentence] + link % width]
    del sentence, link, width
    keys, pair = np.unique(
        source_tokens * vocabulary + targets.ids[target_positions].astype(np.int64), return_inverse=True
    )
    source, target = np.divmod(keys, vocabulary)
    probabilities = np.ones(len(keys))
    for _ in range(ITERATIONS):
        weights = probabilities[pair]
        weights /= np.bincount(target_positions, weights)[target_positions]
        counts = np.bincount(pair, weights)
        probabilities = counts / np.bincount(source, counts)[source]
    return source, target, probabilities
