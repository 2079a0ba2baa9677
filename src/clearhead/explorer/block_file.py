"""What a saved file needs to write out a block: norms, some rows of the matrices, and the units."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from clearhead.explorer.arrays import array_of
from clearhead.explorer.block import readout, strongest_units, units
from clearhead.explorer.catalogue import Entry
from clearhead.explorer.trace_session import TraceSession
from clearhead.layers.feedforward import SwiGLU
from clearhead.layers.norm import LayerNorm, PreNorm, RMSNorm
from clearhead.models.anatomy import RESIDUALS

NUMBERS = 4
"""How many numbers of each vector have weights in the file; all of them would be as large as the model."""
STREAM = {"embedding", "stream", "added"}
NEEDS = {
    "projection": STREAM | {"states", "weights", "queries", "keys", "values", "head_output"},
    "feedforward": STREAM,
    "readout": STREAM | {"states"},
}
"""The tensors that each part is computed from, by role."""


def block_parts(session: TraceSession, kept: Mapping[str, Entry], spare: int) -> list[str]:
    """The parts of a block that a file with these tensors and `spare` more bytes can show."""
    missing = {entry.role for entry in session.catalogue.values() if entry.name not in kept}
    parts = [part for part in session.manifest()["parts"] if part in NEEDS and not NEEDS[part] & missing]
    return [part for part in parts if part != "feedforward" or _unit_bytes(session) <= spare]


def _unit_bytes(session: TraceSession) -> int:
    """The size of the units of all layers."""
    sides = session.explanation.sides
    return sum(
        4 * one["layers"] * len(sides[one["side"]]) * one["ffn_width"] for one in session.about["stacks"]
    )


@torch.no_grad()
def block_data(session: TraceSession, parts: Iterable[str]) -> dict[str, Any]:
    """Norms and rows by module, units by stack and layer, and the readout of every position."""
    found: dict[str, Any] = {"numbers": NUMBERS, "norms": {}, "rows": {}, "units": {}, "readout": None}
    found["norms"] = _norms(session)
    if "projection" in parts:
        found["rows"] |= _attention_rows(session)
    if "feedforward" in parts:
        _add_units(session, found)
    if "readout" in parts:
        found["readout"] = _readout(session)
    return found


def _norms(session: TraceSession) -> dict[str, Any]:
    """The norm of each residual connection, and the final one of each stack."""
    found: dict[str, Any] = {}
    for stack in session.explanation.anatomy.stacks:
        module: Any = session.model.get_submodule(stack.path)
        found[f"{stack.path}.norm"] = _norm(getattr(module, "norm", None), None)
        for layer in range(stack.layers):
            for sublayer in stack.sublayers:
                path = f"{stack.path}.blocks.{layer}.{RESIDUALS[sublayer]}"
                residual: Any = session.model.get_submodule(path)
                position = "pre" if isinstance(residual, PreNorm) else "post"
                found[f"{path}.norm"] = _norm(residual.norm, position)
    return found


def _norm(norm: Any, position: str | None) -> dict[str, Any] | None:
    if not isinstance(norm, LayerNorm | RMSNorm):
        return None
    epsilon = torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps
    bias = norm.bias if isinstance(norm, LayerNorm) else None
    return {
        "kind": "layer" if isinstance(norm, LayerNorm) else "rms",
        "position": position,
        "epsilon": epsilon,
        "gain": array_of(norm.weight).record(),
        "bias": None if bias is None else array_of(bias).record(),
    }


def _attention_rows(session: TraceSession) -> dict[str, Any]:
    """The first rows of each head's queries, keys and values, and of W_O."""
    found = {}
    anatomy = session.explanation.anatomy
    for part in (one for one in anatomy.attentions if one.stack is not None):
        for path in anatomy.layers(part):
            attention: Any = session.model.get_submodule(path)
            project, size = attention.project, attention.head_size
            starts = range(0, sum(project.sizes), size)
            index = [start + i for start in starts for i in range(min(NUMBERS, size))]
            found[f"{path}.project"] = {**_rows(project, index), "sizes": list(project.sizes)}
            found[f"{path}.output"] = _rows(
                attention.output, range(min(NUMBERS, len(attention.output.weight)))
            )
    return found


def _add_units(session: TraceSession, found: dict[str, Any]) -> None:
    for stack in session.explanation.anatomy.stacks:
        for layer in range(stack.layers):
            path = f"{stack.path}.blocks.{layer}.feedforward"
            network: Any = session.model.get_submodule(path)
            strongest = strongest_units(session, stack.path, layer)
            chosen = sorted({one["unit"] for units_there in strongest for one in units_there})
            found["rows"][f"{path}.inner"] = _rows(network.inner, chosen)
            if isinstance(network, SwiGLU):
                found["rows"][f"{path}.gate"] = _rows(network.gate, chosen)
            found["rows"][f"{path}.outer"] = _rows(network.outer, range(NUMBERS))
            hidden = array_of(units(session, stack.path, layer)).record()
            found["units"][path] = {"hidden": hidden, "strongest": strongest}


def _rows(linear: Any, index: Iterable[int]) -> dict[str, Any]:
    """Some rows of a linear layer with their biases."""
    chosen = list(index)
    bias: Tensor | None = linear.bias
    return {
        "index": chosen,
        "weight": array_of(linear.weight[chosen]).record(),
        "bias": None if bias is None else bias[chosen].tolist(),
    }


def _readout(session: TraceSession) -> dict[str, Any]:
    """The readout of the candidates at every position."""
    at = [readout(session, position, None) for position in range(len(session.explanation.target))]
    pieces = {one["id"]: one["piece"] for found in at for one in found["candidates"]}
    index = list(pieces)
    model: Any = session.model
    bias = getattr(model, "readout_bias", None)
    return {
        "index": index,
        "pieces": list(pieces.values()),
        "weight": array_of(model.readout_weight[index]).record(),
        "bias": None if bias is None else bias[index].tolist(),
        "logits": array_of(session.values("logits")[:, index]).record(),
        "positions": [
            {
                "token": found["token"]["id"],
                "candidates": [one["id"] for one in found["candidates"]],
                "largest": found["largest"],
                "sum": found["sum"],
            }
            for found in at
        ],
    }
