"""What a run asks of the task that it trains a model for: the seam between the one story and its contents."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from clearhead.text.tokenizer import Tokenizer


class Epochs(Protocol):
    """A corpus in batches, epoch by epoch, for one of several ranks."""

    def epoch(self, number: int, skip: int = 0) -> Iterator[Any]:
        """The batches of an epoch for this rank, without the first `skip` of all ranks together."""
        ...


class Measure(Protocol):
    """How a model in training does on what it does not learn from."""

    def measure(self, model: Any, autocast: AbstractContextManager) -> dict[str, float]:
        """Scores by name, the loss among them."""
        ...


class Loss(Protocol):
    def __call__(self, model: Any, batch: Any) -> Tensor:
        """The sum of the losses of a batch, over its tokens."""
        ...


class Task(Protocol):
    """One of the things that a model can be trained for, by a recipe."""

    reading: str
    """What is done to the corpus, said before."""

    def check(self) -> str:
        """Refuses what would be missed only after long work; gives an example of the corpus, in words."""
        ...

    def paths(self) -> list[Path]:
        """The files to train on."""
        ...

    def split(self) -> None:
        """Chooses what is kept from training; for that, all files may have to be read."""
        ...

    def learn_tokenizer(self) -> Tokenizer:
        """From a part of the files, where they are large."""
        ...

    def about_tokenizer(self, tokenizer: Tokenizer) -> str: ...

    def store(self, tokenizer: Tokenizer) -> Any:
        """The corpus to train on as ids; made by whoever asks first, then found."""
        ...

    def about_store(self, store: Any) -> str: ...

    def files(self, store: Any) -> Any:
        """By which the files of the corpus are known again."""
        ...

    def hold_out(self, tokenizer: Tokenizer, out: Path) -> Any:
        """What is kept for validation, as `validator` wants it; rank 0 alone is asked, and may write it."""
        ...

    def validator(self, held_out: Any, tokenizer: Tokenizer) -> Measure | None: ...

    def loss(self, tokenizer: Tokenizer) -> Loss: ...

    def batches(
        self, store: Any, tokenizer: Tokenizer, rank: int, ranks: int, batches_per_step: int
    ) -> Epochs:
        """This rank's batches, when so many of all ranks make a step."""
        ...

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        """What is said beside the published model."""
        ...
