"""A model's positional encoding as a table with one row per position."""

from typing import Any

import torch

from clearhead.explorer.arrays import Array, array_of
from clearhead.layers.positions import Alibi, Rotary


@torch.no_grad()
def position_table(model: Any, positions: int) -> tuple[str, Array]:
    """The kind and one row per position: the vector that is added.

    Rotary positions give cosines and sines instead, ALiBi the penalty of each distance per head.
    """
    anatomy, config = model.anatomy(), model.config
    kind = getattr(config, "position", None) or "none"
    device = next(model.parameters()).device
    limit = getattr(config, "max_positions", positions)
    numbers = torch.arange(min(positions, limit), device=device)
    relative = model.get_submodule(anatomy.attentions[0].path(0)).relative
    match relative:
        case Rotary():
            table = torch.cat((relative.cosines[: len(numbers)], relative.sines[: len(numbers)]), -1)
        case Alibi():
            table = -relative.head_slopes[:, 0, 0] * numbers[:, None]
        case _ if kind == "none":
            table = torch.zeros(0, 0)
        case _:
            embedding = model.get_submodule(next(iter(anatomy.embeddings.values())))
            empty = torch.zeros(1, len(numbers), config.width, device=device)
            table = embedding.position(empty, numbers, torch.tensor([len(numbers)], device=device))[0]
    return kind, array_of(table)
