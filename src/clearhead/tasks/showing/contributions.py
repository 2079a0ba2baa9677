"""What each head does for the output: its log-probability with the head muted, less that with all heads."""

from typing import Any

import torch

from clearhead.inspection import intervene
from clearhead.inspection.edits import Mute
from clearhead.layers.layout import Padded
from clearhead.models import GPT
from clearhead.tasks.showing.architecture import attentions
from clearhead.tasks.showing.told import Told


def contributions(told: Told) -> dict[str, Any]:
    """Each head muted once, in one pass each (Michel et al. 2019)."""
    model, heads = told.model, []
    with intervene(model, told.changes):
        whole = _log_probability(told)
        for one in attentions(model):
            for layer in range(one["layers"]):
                for head in range(one["heads"]):
                    site = f"{one['path'].replace('*', str(layer))}.mixed"
                    with intervene(model, {site: Mute((head,))}):
                        change = _log_probability(told) - whole
                    place = {"attention": one["key"], "layer": layer, "head": head}
                    heads.append({**place, "change": change})
    return {"heads": heads, "log_probability": whole}


@torch.no_grad()
def _log_probability(told: Told) -> float:
    """Of all that the read side says next."""
    model, device = told.model, told.device
    read = torch.tensor([[token.id for token in told.read]], device=device)
    if isinstance(model, GPT):
        logits = model(read)[0]
    else:
        source = torch.tensor([[token.id for token in told.explanation.source]], device=device)
        logits = model(source, Padded(torch.tensor([source.shape[1]], device=device)), read)[0]
    said = [(place, token.next) for place, token in enumerate(told.read) if token.next is not None]
    places, words = (torch.tensor(column, device=device) for column in zip(*said, strict=True))
    return float(logits[places].float().log_softmax(-1).gather(1, words[:, None]).sum())
