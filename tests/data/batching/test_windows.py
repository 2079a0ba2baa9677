"""Batches of words with windows of context."""

import numpy as np
import pytest
import torch

from clearhead.data.batching.windows import WindowBatch, Windows, WindowsConfig
from clearhead.data.store import TokenSequences

LINES = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 10, 11], [12, 13, 14, 15, 16, 17, 18, 19, 20, 21]]
ALL = WindowsConfig(window=3, subsample=0, words=100, block=4, shared_negatives=6)


def windows(config: WindowsConfig, lines: list[list[int]] = LINES, seed: int = 0) -> Windows:
    text = TokenSequences.of(lines)
    return Windows(text, np.bincount(text.ids) + 1, config, seed)


def pairs(batch: WindowBatch) -> list[tuple[int, int]]:
    """The pairs of words and contexts that a batch describes, one by one."""
    found = []
    for around, left, right in zip(batch.surroundings, batch.left, batch.right, strict=True):
        for index in range(batch.block):
            at = index + batch.window
            reach = [*range(at - int(left[index]), at), *range(at + 1, at + int(right[index]) + 1)]
            found += [(int(around[at]), int(around[other])) for other in reach]
    return found


def test_contexts_are_the_neighbours_within_a_line():
    """Of each word, one after the other as word2vec does it, with the width that the batch drew."""
    [batch] = windows(ALL).epoch(0)
    drawn = pairs(batch)
    widths = {}
    for line in LINES:
        for at, word in enumerate(line):
            contexts = [other for one, other in drawn if one == word]
            width = next(
                width
                for width in (1, 2, 3)
                if contexts == line[max(0, at - width) : at] + line[at + 1 : at + 1 + width]
            )
            widths[word] = width
    assert len(widths) == 21
    assert set(widths.values()) == {1, 2, 3}


@pytest.mark.parametrize("block", [1, 5, 32, 64])
def test_the_size_of_blocks_does_not_change_the_pairs(block: int):
    [one], [other] = (windows(config).epoch(0) for config in (ALL, ALL.model_copy(update={"block": block})))
    assert pairs(one) == pairs(other)
    assert other.surroundings.shape[1] == block + 6


def test_spans_cover_the_text_once_in_an_order_of_their_own():
    config = ALL.model_copy(update={"words": 4})
    made = windows(config)
    for epoch in (0, 1):
        batches = list(made.epoch(epoch))
        assert sum(batch.tokens for batch in batches) == 21
        words = [batch.centres.flatten() for batch in batches]
        assert sorted(word for word in torch.cat(words).tolist() if word) == list(range(1, 22))
    assert made.plan(0) != made.plan(1)


def test_an_epoch_can_be_entered_anywhere():
    config = ALL.model_copy(update={"words": 4, "subsample": 0.05})
    whole, rest = list(windows(config).epoch(3)), list(windows(config).epoch(3, skip=4))
    for one, other in zip(whole[4:], rest, strict=True):
        for name in ("surroundings", "negatives", "left", "right"):
            assert torch.equal(getattr(one, name), getattr(other, name))


def test_frequent_words_are_left_out_as_often_as_in_word2vec():
    """Its program keeps a word of frequency f with probability √(t/f) + t/f."""
    text = TokenSequences.of([[0] * 9000 + [1] * 900 + [2] * 100])
    counts = np.array([9000, 900, 100])
    config = WindowsConfig(subsample=0.01, words=10_000)
    kept = np.zeros(3)
    for epoch in range(40):
        [batch] = Windows(text, counts, config, seed=1).epoch(epoch)
        inside = batch.centres.flatten()[: int((batch.left + batch.right > 0).sum())]
        kept += np.bincount(inside.numpy(), minlength=3)
    expected = [min(1.0, np.sqrt(0.01 / f) + 0.01 / f) for f in (0.9, 0.09, 0.01)]
    assert (kept / 40 / counts).tolist() == pytest.approx(expected, rel=0.03)


def test_negatives_are_drawn_by_frequency_to_the_power_of_three_quarters():
    text = TokenSequences.of([[0, 1, 2, 3] * 100])
    counts = np.array([1000, 100, 10, 1])
    config = WindowsConfig(words=400, shared_negatives=4000, subsample=0)
    [batch] = Windows(text, counts, config, seed=1).epoch(0)
    drawn = np.bincount(batch.negatives.flatten().numpy(), minlength=4) / batch.negatives.numel()
    expected = counts**0.75 / (counts**0.75).sum()
    assert drawn.tolist() == pytest.approx(expected.tolist(), abs=0.01)
