"""A toy model whose random logits depend on the sentence and all tokens so far."""

from functools import lru_cache

import pytest
import torch
from torch import Tensor

START, END = 0, 1


@lru_cache(maxsize=100_000)
def next_logits(seed: int, tokens: tuple[int, ...], vocabulary: int) -> Tensor:
    """Logits that depend on the whole past; <s> is impossible."""
    generator = torch.Generator().manual_seed(hash((seed, tokens)) % 2**60)
    logits = 2 * torch.randn(vocabulary, generator=generator)
    logits[START] = -torch.inf
    return logits


class Toy:
    """A model that is its own state: every row holds its sentence and its tokens."""

    def __init__(self, seeds: list[int], vocabulary: int = 6):
        self.rows: list[tuple[int, tuple[int, ...]]] = [(seed, ()) for seed in seeds]
        self.vocabulary = vocabulary
        self.rows_stepped: list[int] = []

    def select(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]

    def step(self, tokens: Tensor, state: "Toy") -> Tensor:
        assert state is self
        self.rows_stepped.append(len(tokens))
        assert len(tokens) == len(self.rows)
        self.rows = [
            (seed, (*past, token)) for (seed, past), token in zip(self.rows, tokens.tolist(), strict=True)
        ]
        return torch.stack([next_logits(seed, past, self.vocabulary) for seed, past in self.rows])

    def log_probs(self, seed: int, tokens: list[int]) -> list[float]:
        """The log-probability of each token after <s> and the tokens before it."""
        given = [START, *tokens]
        return [
            next_logits(seed, tuple(given[:position]), self.vocabulary)
            .log_softmax(-1)[given[position]]
            .item()
            for position in range(1, len(given))
        ]


@pytest.fixture
def toy() -> type[Toy]:
    return Toy
