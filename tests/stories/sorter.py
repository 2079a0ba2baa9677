"""A family of its own, outside the package: a Transformer encoder that sorts digits.

Run as a program, it is the command line with this family: `python sorter.py train recipe.toml --out DIR`.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.config import Settings
from clearhead.data.batch import TensorBatch
from clearhead.evaluation.metric import ACCURACY, LOSS
from clearhead.inspection.explanation import Explanation, Token, explain_pass
from clearhead.layers.block import BlockConfig, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Mask
from clearhead.models import MODELS
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.tasks import TASKS
from clearhead.tasks.events import Note
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.task import RunContext, Task

DIGITS = 10


class SorterConfig(BlockConfig):
    kind: Literal["sorter"] = "sorter"
    layers: int = 1
    length: int = 6

    @property
    def max_positions(self) -> int:
        return self.length


class Sorter(nn.Module):
    """The digits of a row, and at each position the logits of the digit that belongs there."""

    Config = SorterConfig
    Processor = None

    def __init__(self, config: SorterConfig):
        super().__init__()
        self.config = config
        self.embedding = Embedding(DIGITS, config.width, config.position, config.length, config.dropout)
        self.encoder = Stack(config, config.layers)
        self.classifier = nn.Linear(config.width, DIGITS)

    @classmethod
    def build(cls, config: SorterConfig, processor: None) -> "Sorter":
        return cls(config)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"digits": "embedding"},
            stacks=(StackPart("encoder", "digits", self.config.layers, ("attention", "feedforward")),),
            attentions=(AttentionPart("encoder", "encoder", "attention", "digits", "digits", causal=False),),
            readout=None,
        )

    def forward(self, digits: Tensor) -> Tensor:
        return self.classifier(self.encoder(self.embedding(digits), Mask()))


@dataclass(frozen=True)
class DigitBatch(TensorBatch):
    digits: Tensor
    ordered: Tensor

    def count_tokens(self) -> int:
        return self.digits.numel()


class SortingData(Settings):
    rows: int = 32
    batches: int = 50


class SortingRecipe(Recipe):
    kind: Literal["sorting"] = "sorting"
    data: SortingData = SortingData()
    model: SorterConfig = SorterConfig()


class SortingTask(Task):
    Recipe = SortingRecipe
    metrics = (LOSS, ACCURACY)
    does = "sorts digits"

    def prepare(self, context: RunContext) -> Iterator[Note]:
        data = self.recipe.data
        yield Note(f"digits: {data.batches} batches of {data.rows} rows")
        self.data_fingerprint = data.model_dump()

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> "SortingTask":
        return self

    def epoch(self, number: int, skip: int = 0) -> Iterator[DigitBatch]:
        data, seed = self.recipe.data, self.recipe.training.seed
        generator = torch.Generator().manual_seed(1000 * seed + number)
        for index in range(data.batches):
            digits = torch.randint(DIGITS, (data.rows, self.recipe.model.length), generator=generator)
            if index >= skip:
                yield DigitBatch(digits, digits.sort(-1).values)

    def loss(self, model: Sorter, batch: DigitBatch) -> Tensor:
        return F.cross_entropy(model(batch.digits).flatten(0, 1), batch.ordered.flatten(), reduction="sum")

    @torch.no_grad()
    def validate(self, model: Sorter, autocast: AbstractContextManager) -> dict[str, float]:
        model.eval()
        batch = next(self.epoch(-1))
        right = (model(batch.digits).argmax(-1) == batch.ordered).float().mean()
        return {"loss": float(self.loss(model, batch)) / batch.tokens, "accuracy": float(right)}

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> "SortingModel":
        return SortingModel(checkpoint.model)


class SortingModel:
    """A trained sorter in use."""

    task = "sorting"
    name = ""
    tokenizer = None

    def __init__(self, model: Any):
        self.model = model

    def sort(self, digits: Sequence[int]) -> list[int]:
        with torch.no_grad():
            return self.model(torch.tensor([list(digits)]))[0].argmax(-1).tolist()

    def explain(self, text: str, *, names: Sequence[str] = ("*",)) -> Explanation:
        digits = torch.tensor([[int(digit) for digit in text if digit.isdigit()]])
        tokens = tuple(Token(digit, str(digit), number) for number, digit in enumerate(digits[0].tolist()))
        return explain_pass(
            self.model,
            lambda: self.model(digits)[0],
            {"digits": tokens},
            names,
            text=text,
            output=" ".join(map(str, self.sort(digits[0].tolist()))),
        )


def register() -> None:
    """Adds the family to the two tables."""
    MODELS["sorter"], TASKS["sorting"] = Sorter, SortingTask


if __name__ == "__main__":
    from clearhead.cli import main

    register()
    main()
