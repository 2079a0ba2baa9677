"""What a model's positions are made of, as a table with a row for each place."""

import torch

from clearhead.explorer.arrays import Array, array_of
from clearhead.layers.positions import Alibi, Rotary
from clearhead.models import GPT, Translator


@torch.no_grad()
def position_table(model: Translator | GPT, positions: int) -> tuple[str, Array]:
    """The kind, and what is added at each place; of rotary ones the turns, of alibi what a distance takes."""
    device, positions = model.readout_weight.device, min(positions, model.config.max_positions)
    numbers = torch.arange(positions, device=device)
    relative = model.get_submodule("decoder.blocks.0.attention.relative")
    match relative:
        case Rotary():
            table = torch.cat((relative.cosines[:positions], relative.sines[:positions]), -1)
        case Alibi():
            table = -relative.slopes[:, 0, 0] * numbers[:, None]
        case _ if model.config.position == "none":
            table = torch.zeros(0, 0)
        case _:
            embedding = model.embedding if isinstance(model, GPT) else model.source_embedding
            empty = torch.zeros(1, positions, model.config.width, device=device)
            table = embedding.position(empty, numbers, torch.tensor([positions], device=device))[0]
    return model.config.position, array_of(table)
