"""One number of a query, key or value as a dot product: a vector of the stream times a row of the matrix."""

from typing import Any

import torch

from clearhead.errors import SettingsError
from clearhead.explorer.trace_session import TraceSession
from clearhead.layers.attention import Attention
from clearhead.layers.norm import PreNorm
from clearhead.models.anatomy import RESIDUALS, AttentionPart

PARTS = ("queries", "keys", "values")


@torch.no_grad()
def projection(
    session: TraceSession, name: str, layer: int, head: int, position: int, part: str, dimension: int
) -> dict[str, Any]:
    """x·W + b for one dimension of one head at one position, with all its numbers."""
    known = {one["name"]: one for one in session.about["attentions"]}
    if name not in known:
        raise SettingsError(f"attention: {name!r:.80} is not one of {', '.join(known)}")
    if part not in PARTS:
        raise SettingsError(f"part: {part!r:.40} is not one of {', '.join(PARTS)}")
    sizes = {"layer": (layer, known[name]["layers"]), "head": (head, known[name]["heads"])}
    for field, (number, count) in {**sizes, "dimension": (dimension, known[name]["head_size"])}.items():
        if not 0 <= number < count:
            raise SettingsError(f"{field}: {number} is not from 0 to {count - 1}")
    kind = session.explanation.anatomy.attention(name)
    attention = session.model.get_submodule(path := kind.path(layer))
    assert isinstance(attention, Attention)
    side = kind.queries if part == "queries" else kind.keys
    session.check_position(position, side)
    session.fetch(f"{path}.{part}")
    given = _input(session, kind, layer, part, position)
    # With grouped-query attention, several query heads share one head of keys and values.
    group = head if part == "queries" else head // attention.heads_per_kv_head
    row = sum(attention.project.sizes[: PARTS.index(part)]) + group * attention.head_size + dimension
    weight = attention.project.weight[row].cpu()
    bias = 0.0 if attention.project.bias is None else float(attention.project.bias[row])
    return {
        "name": f"{path}.project",
        "part": part,
        "side": side,
        "position": position,
        "dimension": dimension,
        "input": given.tolist(),
        "weight": weight.tolist(),
        "bias": bias,
        "product": float(given @ weight) + bias,
        "output": session.values(f"{path}.{part}", layer)[head, position].tolist(),
    }


def _input(session: TraceSession, kind: AttentionPart, layer: int, part: str, position: int) -> torch.Tensor:
    """The input of the attention at a position: the stream, normalized in a pre-norm model."""
    anatomy = session.explanation.anatomy
    if kind.crosses and part != "queries":
        source = next(stack.path for stack in anatomy.stacks if stack.side == kind.keys)
        return session.values(f"{source}.states")[position]
    if kind.stack is None:
        raise SettingsError(f"attention: {kind.name} is not in a stack, so its input is not in the trace")
    stack = anatomy.stack(kind.stack)
    if before := stack.sublayers[: stack.sublayers.index(kind.sublayer)]:
        stream = stack.stream(layer, before[-1])
    elif layer:
        stream = stack.stream(layer - 1, stack.sublayers[-1])
    else:
        stream = f"{anatomy.embeddings[kind.queries]}.stream"
    block = kind.path(layer).removesuffix(kind.sublayer)
    residual = session.model.get_submodule(block + RESIDUALS[kind.sublayer])
    whole = session.values(stream)[None].to(session.device)
    return (residual.norm(whole) if isinstance(residual, PreNorm) else whole)[0, position].cpu()
