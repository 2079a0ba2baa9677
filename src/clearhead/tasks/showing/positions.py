"""What a model's positions are made of, as a table with a row for each place."""

import torch

from clearhead.layers.positions import Alibi, Rotary
from clearhead.models import GPT
from clearhead.tasks.showing.architecture import Model
from clearhead.tasks.showing.arrays import Array, array_of


@torch.no_grad()
def position_table(model: Model, places: int) -> tuple[str, Array]:
    """The kind, and what is added at each place; of rotary ones the turns, of alibi what a distance takes."""
    inner = model.model
    places = min(places, inner.config.longest)
    numbers = torch.arange(places, device=model.device)
    relative = inner.get_submodule("decoder.blocks.0.attention.relative")
    match relative:
        case Rotary():
            table = torch.cat((relative.cosines[:places], relative.sines[:places]), -1)
        case Alibi():
            table = -relative.slopes[:, 0, 0] * numbers[:, None]
        case _ if inner.config.position == "none":
            table = torch.zeros(0, 0)
        case _:
            embedding = inner.embedding if isinstance(inner, GPT) else inner.source_embedding
            empty = torch.zeros(1, places, inner.config.width, device=model.device)
            table = embedding.position(empty, numbers, torch.tensor([places], device=model.device))[0]
    return inner.config.position, array_of(table)
