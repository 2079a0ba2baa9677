"""The contribution of each head, measured by muting it while all others stay (Michel et al. 2019)."""

from collections.abc import Callable, Generator
from dataclasses import dataclass

from torch import nn

from clearhead.inspection.edits import Mute
from clearhead.inspection.intervene import intervene
from clearhead.layers.attention import Attention


@dataclass(frozen=True)
class Contribution:
    """How a measure changes when a head is muted."""

    attention: str
    """The path of the attention."""
    head: int
    change: float
    """Negative if the head helps."""


def contributions(model: nn.Module, measure: Callable[[], float]) -> Generator[Contribution, None, None]:
    """The contribution of every head of every attention; `measure` runs the model."""
    baseline = measure()
    for path, attention in model.named_modules():
        if isinstance(attention, Attention):
            for head in range(attention.project.sizes[0] // attention.head_size):
                with intervene(model, {f"{path}.head_output": Mute([head])}):
                    yield Contribution(path, head, measure() - baseline)
