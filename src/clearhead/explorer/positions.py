"""What a model's positions are made of, as a table with a row for each place."""

import torch

from clearhead.explorer.arrays import Array, array_of
from clearhead.layers.positions import Alibi, Rotary
from clearhead.models import GPT, Translator


@torch.no_grad()
def position_table(model: Translator | GPT, places: int) -> tuple[str, Array]:
    """The kind, and what is added at each place; of rotary ones the turns, of alibi what a distance takes."""
    device, places = model.readout_weight.device, min(places, model.config.longest)
    numbers = torch.arange(places, device=device)
    relative = model.get_submodule("decoder.blocks.0.attention.relative")
    match relative:
        case Rotary():
            table = torch.cat((relative.cosines[:places], relative.sines[:places]), -1)
        case Alibi():
            table = -relative.slopes[:, 0, 0] * numbers[:, None]
        case _ if model.config.position == "none":
            table = torch.zeros(0, 0)
        case _:
            embedding = model.embedding if isinstance(model, GPT) else model.source_embedding
            empty = torch.zeros(1, places, model.config.width, device=device)
            table = embedding.position(empty, numbers, torch.tensor([places], device=device))[0]
    return model.config.position, array_of(table)
