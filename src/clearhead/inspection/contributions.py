"""What each head is worth: muted once, with all others as they are."""

from collections.abc import Callable, Generator
from dataclasses import dataclass

from torch import nn

from clearhead.inspection.edits import Mute
from clearhead.inspection.intervene import intervene
from clearhead.layers.attention import Attention


@dataclass(frozen=True)
class Contribution:
    """What a measure loses or gains when a head is muted."""

    attention: str
    """Its path in the model."""
    head: int
    change: float
    """Of the measure: below 0 where the head helps."""


def contributions(model: nn.Module, measure: Callable[[], float]) -> Generator[Contribution, None, None]:
    """Every head of every attention, muted once each (Michel et al. 2019); `measure` runs the model."""
    whole = measure()
    for path, attention in model.named_modules():
        if isinstance(attention, Attention):
            for head in range(attention.project.sizes[0] // attention.head_size):
                with intervene(model, {f"{path}.mixed": Mute([head])}):
                    yield Contribution(path, head, measure() - whole)
