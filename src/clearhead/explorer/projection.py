"""How one number of a query, key or value comes about: a vector of the stream times a row of the matrix."""

from typing import Any

import torch

from clearhead.errors import SettingsError
from clearhead.explorer.trace_session import TraceSession
from clearhead.layers.attention import Attention
from clearhead.layers.norm import PreNorm
from clearhead.models.anatomy import RESIDUALS

THREE = ("queries", "keys", "values")


@torch.no_grad()
def projection(
    told: TraceSession, key: str, layer: int, head: int, place: int, part: str, dimension: int
) -> dict[str, Any]:
    """x·W + b for one dimension of one head at one place, with all its numbers."""
    kind = told.attention(key)
    if part not in THREE:
        raise SettingsError(f"part: {part!r:.40} is not one of {', '.join(THREE)}")
    for name, number, limit in (("layer", layer, kind["layers"]), ("head", head, kind["heads"])):
        if not 0 <= number < limit:
            raise SettingsError(f"{name}: {number} is not from 0 to {limit - 1}")
    path = kind["path"].replace("*", str(layer))
    attention = told.model.get_submodule(path)
    assert isinstance(attention, Attention)
    if not 0 <= dimension < attention.head_size:
        raise SettingsError(f"dimension: {dimension} is not from 0 to {attention.head_size - 1}")
    side = kind["queries" if part == "queries" else "keys"]
    told.check_place(place, side)
    told.fetch(f"{path}.{part}")
    given = _given(told, kind, layer, part, place)
    # Several heads of queries may ask the same keys and values.
    asked = head if part == "queries" else head // attention.heads_per_kv_head
    row = sum(attention.project.sizes[: THREE.index(part)]) + asked * attention.head_size + dimension
    weight = attention.project.weight[row].cpu()
    bias = 0.0 if attention.project.bias is None else float(attention.project.bias[row])
    return {
        "name": f"{path}.project",
        "part": part,
        "side": side,
        "place": place,
        "dimension": dimension,
        "input": given.tolist(),
        "weight": weight.tolist(),
        "bias": bias,
        "product": float(given @ weight) + bias,
        "output": told.values(f"{path}.{part}")[head, place].tolist(),
    }


def _given(told: TraceSession, kind: dict[str, Any], layer: int, part: str, place: int) -> torch.Tensor:
    """What the attention gets at a place: the stream, normalised where norms come first."""
    stack, sublayer = kind["stack"], kind["path"].rsplit(".", 1)[1]
    if kind["kind"] == "cross" and part != "queries":
        return told.values("encoder.states")[place]
    if sublayer == "cross_attention":
        stream = told.values(f"{stack}.blocks.{layer}.{RESIDUALS['attention']}.stream")
    elif layer:
        stream = told.values(f"{stack}.blocks.{layer - 1}.{RESIDUALS['feedforward']}.stream")
    else:
        side = kind["queries"]
        stream = told.values("embedding.stream" if side == "text" else f"{side}_embedding.stream")
    residual = told.model.get_submodule(f"{stack}.blocks.{layer}.{RESIDUALS[sublayer]}")
    whole = stream[None].to(told.device)
    return (residual.norm(whole) if isinstance(residual, PreNorm) else whole)[0, place].cpu()
