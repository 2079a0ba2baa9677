"""The logit lens: a model's predictions if it stopped after a layer (nostalgebraist 2020)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Readout = Callable[[Tensor], Tensor]
"""States to logits, including the final norm."""


@dataclass(frozen=True)
class Lens:
    """The most probable tokens after every layer at every position."""

    rows: tuple[str, ...]
    ids: Int[Tensor, "rows positions top"]
    probabilities: Float[Tensor, "rows positions top"]
    next_probabilities: Float[Tensor, "rows positions"]
    """The probability of the actual next token; NaN where it is unknown."""


@torch.no_grad()
def logit_lens(
    streams: Mapping[str, Float[Tensor, "positions width"]],
    readout: Readout,
    following: Sequence[int | None],
    top: int = 3,
) -> Lens:
    """The readout of each stream; `following` are the actual next tokens."""
    ids, probabilities, next_probabilities = [], [], []
    known = torch.tensor([-1 if one is None else one for one in following])
    for stream in streams.values():
        # One row at a time, because with a large vocabulary all rows together take too much memory.
        softmax = readout(stream).float().softmax(-1).cpu()
        best = softmax.topk(min(top, softmax.shape[-1]))
        ids.append(best.indices)
        probabilities.append(best.values)
        actual = softmax.gather(1, known.clamp(min=0)[:, None])[:, 0]
        next_probabilities.append(actual.masked_fill(known < 0, float("nan")))
    return Lens(tuple(streams), torch.stack(ids), torch.stack(probabilities), torch.stack(next_probabilities))
