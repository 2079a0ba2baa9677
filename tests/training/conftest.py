"""A toy task: a recurrent model with dropout that learns to say the next word."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.training import Feed, Trainer, TrainingConfig, smoothed_loss
from clearhead.training.schedule import ConstantSchedule

WIDTH, VOCABULARY, BATCHES = 12, 20, 5


@dataclass(frozen=True)
class Words:
    words: Tensor

    @property
    def tokens(self) -> int:
        return int((self.words[:, 1:] != 0).sum())

    @property
    def padding(self) -> float:
        return 0.25

    @property
    def fixed(self) -> bool:
        return False

    def each(self, change: Callable[[Tensor], Tensor]) -> "Words":
        return Words(change(self.words))

    def parts(self, count: int) -> list["Words"]:
        return [Words(rows) for rows in self.words.split(-(-len(self.words) // min(count, len(self.words))))]


class Toy(nn.Module):
    """Has what must be told apart: a tied embedding, one matrix and several in one, a norm, a buffer."""

    def __init__(self, dropout: float = 0.2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.readout = nn.Linear(WIDTH, VOCABULARY)
        self.readout.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, words: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        a, b, c = self.project(self.embedding(words)).chunk(3, -1)
        return self.dropout(self.norm(self.output(a.tanh() * b.sigmoid() + c.cumsum(1))))


def toy_loss(model: Toy, batch: Words) -> Tensor:
    states = model(batch.words[:, :-1])
    return smoothed_loss(states, model.readout.weight, batch.words[:, 1:], 0.1, model.readout.bias)


def toy_epoch(number: int, skip: int = 0) -> Iterator[Words]:
    for index in range(skip, BATCHES):
        chance = torch.Generator().manual_seed(100 * number + index)
        words = torch.randint(1, VOCABULARY, (3 + index % 2, 6 + index), generator=chance)
        words[0, -2:] = 0
        yield Words(words)


@pytest.fixture
def toy() -> type[Toy]:
    return Toy


@pytest.fixture
def words() -> type[Words]:
    return Words


@pytest.fixture
def loss() -> Callable[[Toy, Words], Tensor]:
    return toy_loss


@pytest.fixture
def feed() -> Callable[..., Feed[Words]]:
    return lambda **position: Feed(toy_epoch, **position)


@pytest.fixture
def make_trainer() -> Callable[..., Trainer[Toy, Words]]:
    """A trainer of a fresh toy; the same seed gives the same toy."""

    def make(
        dropout: float = 0.2, seed: int = 3, loss: Any = toy_loss, **settings: Any
    ) -> Trainer[Toy, Words]:
        torch.manual_seed(seed)
        chosen = {"schedule": ConstantSchedule(peak=0.01), "device": "cpu", "steps": 12} | settings
        return Trainer(Toy(dropout), loss, TrainingConfig(**chosen), WIDTH)

    return make
