"""A toy task: a recurrent model with dropout that learns to predict the next token."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.training import Feed, Trainer, TrainingConfig, cross_entropy_loss
from clearhead.training.schedule import ConstantSchedule

WIDTH, VOCABULARY, BATCHES = 12, 20, 5


@dataclass(frozen=True)
class Tokens:
    ids: Tensor

    @property
    def tokens(self) -> int:
        return int((self.ids[:, 1:] != 0).sum())

    @property
    def padding(self) -> float:
        return 0.25

    @property
    def static_shape(self) -> bool:
        return False

    def map(self, change: Callable[[Tensor], Tensor]) -> "Tokens":
        return Tokens(change(self.ids))

    def split(self, count: int) -> list["Tokens"]:
        return [Tokens(rows) for rows in self.ids.split(-(-len(self.ids) // min(count, len(self.ids))))]


class Toy(nn.Module):
    """Has every kind of parameter: a tied embedding, one matrix and several in one, a norm, a buffer."""

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

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        a, b, c = self.project(self.embedding(tokens)).chunk(3, -1)
        return self.dropout(self.norm(self.output(a.tanh() * b.sigmoid() + c.cumsum(1))))


def toy_loss(model: Toy, batch: Tokens) -> Tensor:
    states = model(batch.ids[:, :-1])
    return cross_entropy_loss(states, model.readout.weight, batch.ids[:, 1:], 0.1, model.readout.bias)


def toy_epoch(number: int, skip: int = 0) -> Iterator[Tokens]:
    for index in range(skip, BATCHES):
        generator = torch.Generator().manual_seed(100 * number + index)
        tokens = torch.randint(1, VOCABULARY, (3 + index % 2, 6 + index), generator=generator)
        tokens[0, -2:] = 0
        yield Tokens(tokens)


@pytest.fixture
def toy() -> type[Toy]:
    return Toy


@pytest.fixture
def tokens() -> type[Tokens]:
    return Tokens


@pytest.fixture
def loss() -> Callable[[Toy, Tokens], Tensor]:
    return toy_loss


@pytest.fixture
def feed() -> Callable[..., Feed[Tokens]]:
    return lambda **position: Feed(toy_epoch, **position)


@pytest.fixture
def make_trainer() -> Callable[..., Trainer[Toy, Tokens]]:
    """A trainer with a new toy; the same seed gives the same toy."""

    def make(
        dropout: float = 0.2, seed: int = 3, loss: Any = toy_loss, **settings: Any
    ) -> Trainer[Toy, Tokens]:
        torch.manual_seed(seed)
        chosen = {"schedule": ConstantSchedule(learning_rate=0.01), "device": "cpu", "steps": 12} | settings
        return Trainer(Toy(dropout), loss, TrainingConfig(**chosen))

    return make
