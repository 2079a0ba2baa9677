"""A block as arithmetic: what attention outputs, add & norm, the feed-forward network, and the readout."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.explorer.trace_session import TraceSession
from clearhead.layers.attention import Attention
from clearhead.layers.feedforward import SwiGLU
from clearhead.layers.norm import LayerNorm, PreNorm, RMSNorm
from clearhead.models.anatomy import RESIDUALS, StackPart

STRONGEST = 12
"""How many units of a feed-forward network are listed."""
EXCITING = 3
"""How many tokens are named for each unit."""
CANDIDATES = 6
"""How many of the most probable tokens the readout lists."""


@torch.no_grad()
def attention_output(
    session: TraceSession, name: str, layer: int, head: int, position: int, dimension: int, output: int
) -> dict[str, Any]:
    """From the weights of a head to the stream: weights · V, concatenated heads, W_O, add & norm."""
    anatomy = session.explanation.anatomy
    known = {part.name: part for part in anatomy.attentions if part.stack is not None}
    if name not in known:
        raise SettingsError(f"attention: {name!r:.80} is not one of {', '.join(known)}")
    part = known[name]
    stack = anatomy.stack(part.stack or "")
    _check(layer=(layer, stack.layers))
    attention = session.model.get_submodule(path := part.path(layer))
    assert isinstance(attention, Attention)
    session.check_position(position, part.queries)
    for tensor in ("weights", "values", "head_output"):
        session.fetch(f"{path}.{tensor}")
    weights, values, outputs = (
        session.values(f"{path}.{tensor}", layer).float() for tensor in ("weights", "values", "head_output")
    )
    matrix, bias = attention.output.weight.float().cpu(), attention.output.bias
    _check(head=(head, len(weights)), dimension=(dimension, values.shape[-1]), output=(output, len(matrix)))
    joined = outputs[:, position].flatten()
    return {
        "weights": weights[head, position].tolist(),
        "values": values[head, :, dimension].tolist(),
        "head_output": float(outputs[head, position, dimension]),
        "heads": outputs[:, position].tolist(),
        "matrix": f"{path}.output.weight",
        "row": matrix[output].tolist(),
        "bias": None if bias is None else float(bias[output]),
        "product": float(joined @ matrix[output]) + (0.0 if bias is None else float(bias[output])),
        **_residual(session, stack, layer, part.sublayer, position),
    }


@torch.no_grad()
def feedforward(
    session: TraceSession, name: str, layer: int, position: int, unit: int | None, output: int
) -> dict[str, Any]:
    """One position in a feed-forward network: its units, one unit and one number of its output as sums.

    Without a unit, the strongest one is written out.
    """
    stack, network, given = _network(session, name, layer)
    session.check_position(position, stack.side)
    inner, hidden = _hidden(network, given)
    strongest = _strongest(network, hidden, position, session.explanation.sides[stack.side])
    unit = int(strongest[0]["unit"]) if unit is None else unit
    _check(unit=(unit, hidden.shape[-1]), output=(output, network.outer.weight.shape[0]))
    outer = network.outer.weight[output].float()
    bias = 0.0 if network.outer.bias is None else float(network.outer.bias[output])
    return {
        "input": given[position].tolist(),
        "unit": unit,
        "unit_weight": network.inner.weight[unit].tolist(),
        "unit_bias": None if network.inner.bias is None else float(network.inner.bias[unit]),
        "unit_input": float(inner[position, unit]),
        "unit_gate": _gate(network, given, position, unit),
        "activations": hidden[:, unit].tolist(),
        "hidden": hidden[position].tolist(),
        "active": int((hidden[position] != 0).sum()),
        "strongest": strongest,
        "matrix": f"{stack.path}.blocks.{layer}.feedforward.outer.weight",
        "row": outer.tolist(),
        "bias": None if network.outer.bias is None else bias,
        "product": float(hidden[position] @ outer.cpu()) + bias,
        **_residual(session, stack, layer, "feedforward", position),
    }


@torch.no_grad()
def units(session: TraceSession, name: str, layer: int) -> Tensor:
    """The units of a feed-forward network after their activation: (positions, ffn_width)."""
    _, network, given = _network(session, name, layer)
    return _hidden(network, given)[1]


@torch.no_grad()
def strongest_units(session: TraceSession, name: str, layer: int) -> list[list[dict[str, Any]]]:
    """The strongest units at every position, and the tokens that excite them."""
    stack, network, given = _network(session, name, layer)
    hidden, tokens = _hidden(network, given)[1], session.explanation.sides[stack.side]
    return [_strongest(network, hidden, position, tokens) for position in range(len(hidden))]


@torch.no_grad()
def readout(session: TraceSession, position: int, token: int | None) -> dict[str, Any]:
    """The logit of a token, by default the next one, as a dot product of the last state; its softmax."""
    session.check_position(position)
    anatomy, explanation = session.explanation.anatomy, session.explanation
    stack, all_logits = anatomy.stacks[-1], session.values("logits").float()
    logits = all_logits[position]
    if token is None:
        following = explanation.target[position].next
        token = int(logits.argmax()) if following is None else following
    _check(token=(token, len(logits)))
    last = session.values(stack.stream(stack.layers - 1, stack.sublayers[-1]))[position]
    state = session.values(f"{stack.path}.states")[position].float()
    model: Any = session.model
    row, bias = model.readout_weight[token].float().cpu(), getattr(model, "readout_bias", None)
    most = float(logits.max())
    # The most probable tokens of this position, and the token itself if it is not one of them.
    likely = logits.topk(min(CANDIDATES, len(logits))).indices.tolist()
    candidates = likely if token in likely else [*likely, token]
    return {
        "token": {"id": token, "piece": explanation.piece(token)},
        "norm": _norm(model.get_submodule(stack.path).norm, last),
        "state": state.tolist(),
        "row": row.tolist(),
        "bias": None if bias is None else float(bias[token]),
        "product": float(state @ row) + (0.0 if bias is None else float(bias[token])),
        "logit": float(logits[token]),
        "largest": most,
        "sum": float((logits - most).exp().sum()),
        "probability": float(logits.softmax(-1)[token]),
        "candidates": [{"id": one, "piece": explanation.piece(one)} for one in candidates],
        "logits": all_logits[:, candidates].tolist(),
    }


def _network(session: TraceSession, name: str, layer: int) -> tuple[StackPart, Any, Tensor]:
    """A stack, the feed-forward network of a layer, and the network's input: (positions, width)."""
    known = {stack.path: stack for stack in session.explanation.anatomy.stacks}
    if name not in known:
        raise SettingsError(f"stack: {name!r:.80} is not one of {', '.join(known)}")
    stack = known[name]
    _check(layer=(layer, stack.layers))
    path = f"{stack.path}.blocks.{layer}"
    residual = session.model.get_submodule(f"{path}.{RESIDUALS['feedforward']}")
    stream = _before(session, stack, layer, "feedforward").to(session.device)
    given = residual.norm(stream) if isinstance(residual, PreNorm) else stream
    return stack, session.model.get_submodule(f"{path}.feedforward"), given


def _hidden(network: Any, given: Tensor) -> tuple[Tensor, Tensor]:
    """The units before and after the activation: (positions, ffn_width)."""
    inner = network.inner(given)
    if isinstance(network, SwiGLU):
        return inner.float().cpu(), (nn.functional.silu(network.gate(given)) * inner).float().cpu()
    return inner.float().cpu(), network.activation(inner).float().cpu()


def _gate(network: Any, given: Tensor, position: int, unit: int) -> float | None:
    """The gate of a unit after its activation; None without gates."""
    if not isinstance(network, SwiGLU):
        return None
    return float(nn.functional.silu(network.gate(given[position]))[unit])


def _strongest(network: Any, hidden: Tensor, position: int, tokens: Sequence[Any]) -> list[dict[str, Any]]:
    """The units that add most at a position: their activation times the norm of their column."""
    strength = hidden[position].abs() * network.outer.weight.float().cpu().norm(dim=0)
    return [
        {"unit": one, "activation": float(hidden[position, one]), "tokens": _exciting(hidden[:, one], tokens)}
        for one in strength.topk(min(STRONGEST, len(strength))).indices.tolist()
    ]


def _exciting(activations: Tensor, tokens: Sequence[Any]) -> list[dict[str, Any]]:
    """The tokens of the text that excite a unit most; those that leave it at zero or below do not count."""
    best = activations.topk(min(EXCITING, len(activations)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [
        {"position": at, "piece": tokens[at].piece, "activation": value} for at, value in pairs if value > 0
    ]


def _before(session: TraceSession, stack: StackPart, layer: int, sublayer: str) -> Tensor:
    """The stream before a sub-layer: (positions, width)."""
    if earlier := stack.sublayers[: stack.sublayers.index(sublayer)]:
        return session.values(stack.stream(layer, earlier[-1]))
    if layer:
        return session.values(stack.stream(layer - 1, stack.sublayers[-1]))
    return session.values(f"{session.explanation.anatomy.embeddings[stack.side]}.stream")


def _residual(
    session: TraceSession, stack: StackPart, layer: int, sublayer: str, position: int
) -> dict[str, Any]:
    """Add & norm around a sub-layer at a position; a pre-norm is applied before, a post-norm after."""
    before = _before(session, stack, layer, sublayer)[position]
    added = session.values(stack.added(layer, sublayer))[position]
    residual: Any = session.model.get_submodule(f"{stack.path}.blocks.{layer}.{RESIDUALS[sublayer]}")
    pre = isinstance(residual, PreNorm)
    return {
        "before": before.tolist(),
        "added": added.tolist(),
        "after": session.values(stack.stream(layer, sublayer))[position].tolist(),
        "norm_position": "pre" if pre else "post",
        "norm": _norm(residual.norm, before if pre else before + added),
    }


def _norm(norm: Any, x: Tensor) -> dict[str, Any] | None:
    """LayerNorm or RMSNorm of one vector, with everything it is computed from; None for no norm."""
    if not isinstance(norm, LayerNorm | RMSNorm):
        return None
    x, centred = x.float().cpu(), isinstance(norm, LayerNorm)
    mean = float(x.mean()) if centred else 0.0
    variance = float((x - mean).square().mean())
    # RMSNorm's own default depends on the type of its weights.
    epsilon = torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps
    bias = norm.bias if isinstance(norm, LayerNorm) else None
    return {
        "kind": "layer" if centred else "rms",
        "input": x.tolist(),
        "mean": mean if centred else None,
        "variance": variance,
        "epsilon": epsilon,
        "gain": norm.weight.float().cpu().tolist(),
        "bias": None if bias is None else bias.float().cpu().tolist(),
        "output": norm(x.to(norm.weight.device)).float().cpu().tolist(),
    }


def _check(**indices: tuple[int, int]) -> None:
    for field, (number, count) in indices.items():
        if not 0 <= number < count:
            raise SettingsError(f"{field}: {number} is not from 0 to {count - 1}")
