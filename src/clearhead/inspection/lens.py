"""The logit lens: what a model would say if it stopped after a layer (nostalgebraist 2020)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Readout = Callable[[Tensor], Tensor]
"""States to logits, with the norm that comes before the readout."""


@dataclass(frozen=True)
class Lens:
    """The best tokens after every layer at every position, and how probable the token is that comes there."""

    rows: tuple[str, ...]
    ids: Int[Tensor, "rows positions top"]
    probabilities: Float[Tensor, "rows positions top"]
    wanted: Float[Tensor, "rows positions"]
    """NaN where nothing comes."""


@torch.no_grad()
def logit_lens(
    streams: Mapping[str, Float[Tensor, "positions width"]],
    readout: Readout,
    wanted: Sequence[int | None],
    top: int = 3,
) -> Lens:
    """The stream read out where it has a name; `wanted` are the ids that come at the positions."""
    ids, probabilities, comes = [], [], []
    known = torch.tensor([-1 if one is None else one for one in wanted])
    for stream in streams.values():
        # Row by row: all rows of a large vocabulary at once would be a lot of memory.
        softmax = readout(stream).float().softmax(-1).cpu()
        best = softmax.topk(min(top, softmax.shape[-1]))
        ids.append(best.indices)
        probabilities.append(best.values)
        said = softmax.gather(1, known.clamp(min=0)[:, None])[:, 0]
        comes.append(said.masked_fill(known < 0, float("nan")))
    return Lens(tuple(streams), torch.stack(ids), torch.stack(probabilities), torch.stack(comes))
