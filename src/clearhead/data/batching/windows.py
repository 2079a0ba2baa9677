"""Batches for word vectors: words with a window of context around each, and shared negative samples."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from torch import Tensor

from clearhead.config import Settings
from clearhead.data.batch import TensorBatch
from clearhead.data.batching.plan import SINGLE, PlannedBatches, Share
from clearhead.data.store import TokenSequences


class WindowsConfig(Settings):
    """How pairs of words are drawn from a text (Mikolov et al. 2013, sections 2.2 and 2.3)."""

    window: Annotated[int, Field(gt=0, le=30)] = 5
    """Maximum distance between a word and its context; each word draws a window size from 1 to this."""
    negatives: PositiveInt = 5
    """Negative samples per pair."""
    exponent: Annotated[float, Field(ge=0, le=1)] = 0.75
    """Negative samples are drawn by word frequency to this power."""
    subsample: Annotated[float, Field(ge=0)] = 1e-3
    """Words with a higher frequency than this are subsampled; 0 keeps all."""
    words: PositiveInt = 4096
    """Words of text per step."""
    update: PositiveInt = 1024
    """Words whose gradients are summed before the vectors change."""
    block: Annotated[int, Field(gt=0, le=64)] = 32
    """Consecutive words that share their negative samples, so that their scores are matrix products."""
    shared_negatives: PositiveInt = 32
    """Negative samples of a block, weighted to make `negatives` per pair."""


@dataclass(frozen=True)
class WindowBatch(TensorBatch):
    """Blocks of words, each with the words around it; centre i of a block is column i + window of these."""

    surroundings: Tensor
    """(blocks, window + block + window): ids; 0 outside of the text."""
    negatives: Tensor
    """(blocks, shared_negatives): ids."""
    left: Tensor
    """(blocks, block): the number of contexts before each centre."""
    right: Tensor
    """(blocks, block): the number of contexts after each centre."""
    words: int
    """Words of text that the batch was drawn from."""

    def count_tokens(self) -> int:
        return self.words

    def parts(self, blocks: int) -> Iterator["WindowBatch"]:
        """The batch in parts of so many blocks."""
        for first in range(0, len(self), blocks):
            last = first + blocks
            yield self.map(lambda tensor: tensor[first:last])  # noqa: B023

    @property
    def block(self) -> int:
        return self.left.shape[1]

    @property
    def window(self) -> int:
        return (self.surroundings.shape[1] - self.block) // 2

    @property
    def centres(self) -> Tensor:
        """(blocks, block): ids."""
        return self.surroundings[:, self.window : self.window + self.block]


class Windows(PlannedBatches[int, WindowBatch]):
    """Spans of a text in random order.

    Words are subsampled first, so that windows reach further; no window crosses the end of a sequence or of a
    span.
    """

    def __init__(
        self,
        text: TokenSequences,
        counts: NDArray[np.int64],
        config: WindowsConfig,
        seed: int = 0,
        share: Share = SINGLE,
    ):
        super().__init__(seed, share)
        self.text, self.config = text, config
        self.batches = -(-len(text.ids) // config.words)
        frequency = counts / counts.sum()
        # The authors' program, not their paper, keeps a word with this probability.
        ratio = config.subsample / frequency
        self._keep = np.sqrt(ratio) + ratio if config.subsample else np.ones_like(frequency)
        noise = frequency**config.exponent
        self._cumulative = np.cumsum(noise / noise.sum())
        # Rounding must not make the last word unreachable, or a number beyond it possible.
        self._cumulative[-1] = 1.0

    def plan(self, epoch: int) -> list[int]:
        return self.random(epoch).permutation(self.batches).tolist()

    def build(self, epoch: int, plan: int) -> WindowBatch:
        # Of its own, so that a resumed run draws the same numbers.
        config, rng = self.config, np.random.default_rng((self.seed, epoch, plan))
        start = plan * config.words
        words = self.text.ids[start : start + config.words]
        kept = rng.random(len(words)) < self._keep[words]
        count = int(kept.sum())
        blocks = max(1, -(-count // config.block))
        padded = np.zeros(blocks * config.block + 2 * config.window, dtype=np.int64)
        padded[config.window : config.window + count] = words[kept]
        around = torch.from_numpy(padded).unfold(0, config.block + 2 * config.window, config.block)
        reach = rng.integers(1, config.window, count, endpoint=True)
        negatives = self._cumulative.searchsorted(rng.random((blocks, config.shared_negatives)))
        left, right = np.zeros((2, blocks * config.block), dtype=np.int8)
        before, after = self._neighbours(start, kept)
        left[:count], right[:count] = np.minimum(reach, before), np.minimum(reach, after)
        shape = (blocks, config.block)
        return WindowBatch(
            around.contiguous(),
            torch.from_numpy(negatives),
            torch.from_numpy(left).view(shape),
            torch.from_numpy(right).view(shape),
            len(words),
        )

    def _neighbours(self, start: int, kept: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of kept words before and after each one in its sequence, within the span."""
        end, offsets = start + len(kept), self.text.offsets
        first, last = offsets.searchsorted([start, end], side="right")
        bounds = np.concatenate([[start], offsets[first:last], [end]]) - start
        # The same bounds, counted in kept words.
        bounds = np.concatenate([[0], np.cumsum(kept)])[bounds]
        lengths, positions = np.diff(bounds), np.arange(bounds[-1])
        return positions - np.repeat(bounds[:-1], lengths), np.repeat(bounds[1:], lengths) - 1 - positions
