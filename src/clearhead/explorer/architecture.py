"""The map of a model, read from its anatomy, and its positional encoding."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.explorer.arrays import Array, array_of
from clearhead.explorer.explorable import DEFAULT_ABOUT, Explorable, about, input_of
from clearhead.inspection.vectors import position_kind
from clearhead.layers.attention import Attention
from clearhead.layers.positions import Alibi, NoPosition, Relative, Rotary
from clearhead.layers.scores import ProductScore
from clearhead.models.anatomy import AttentionPart, StackPart
from clearhead.text.tokenizer import Tokenizer

SETTINGS = ("ffn_width", "position", "norm", "norm_position", "activation", "attend", "tied")
RECURRENCE = ("side", "layers", "cell", "directions")


def architecture(model: Explorable, name: str) -> dict[str, Any]:
    """The map of a model in use."""
    return module_map(model.model, name, getattr(model, "tokenizer", None), about(model))


def module_map(
    model: Any, name: str, tokenizer: Any, usage: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The map of a torch module; `usage` is what `about` returns for the model in use."""
    anatomy, config = model.anatomy(), getattr(model, "config", None)
    max_length = getattr(config, "max_positions", None)
    return {
        "name": name,
        "kind": getattr(config, "kind", type(model).__name__),
        "width": width_of(model),
        **{setting: getattr(config, setting, None) for setting in SETTINGS},
        **_first_attention(model),
        "vocabulary": vocabulary_of(model),
        "max_length": max_length,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "input": input_of(type(model)),
        "tokenizer": tokenizer.config.kind if isinstance(tokenizer, Tokenizer) else None,
        "output_side": anatomy.output_side,
        **(usage or {**DEFAULT_ABOUT, "max_tokens": max_length}),
        "stacks": [
            {
                "name": part.path,
                "layers": part.layers,
                "side": part.side,
                "sublayers": list(part.sublayers),
                "position": _position_kind(model, part.side),
                "ffn_width": _ffn_width(model, part),
            }
            for part in anatomy.stacks
        ],
        "recurrences": [
            {"name": part.path, **{name: getattr(part, name) for name in RECURRENCE}}
            for part in anatomy.recurrences
        ],
        "attentions": attentions(model),
    }


def width_of(model: Any) -> int | None:
    """The numbers per token, as the first attention or the first embedding has them."""
    anatomy = model.anatomy()
    if anatomy.attentions:
        return _attention(model, anatomy.attentions[0]).project.in_features
    found = (getattr(model.get_submodule(path), "weight", None) for path in anatomy.embeddings.values())
    return next((weight.shape[1] for weight in found if weight is not None), None)


def vocabulary_of(model: Any) -> int | None:
    """The number of tokens that a model predicts; None if it predicts none."""
    readout = getattr(model, "readout_weight", None)
    return getattr(model, "vocabulary", None) if readout is None else readout.shape[0]


def device_of(model: Any) -> torch.device:
    """Where a model computes; one of counts may have no parameters."""
    return next(chain(model.parameters(), model.buffers()), torch.empty(0)).device


def attentions(model: Any) -> list[dict[str, Any]]:
    """The kinds of attention; each occurs in every layer of its stack."""
    anatomy, window = model.anatomy(), getattr(getattr(model, "config", None), "window", None)
    found = []
    for part in anatomy.attentions:
        attention = _attention(model, part)
        score = attention.score
        found.append(
            {
                "name": part.name,
                "path": part.path("*"),
                "kind": "cross" if part.crosses else "self",
                "stack": part.stack,
                "layers": len(anatomy.layers(part)),
                "heads": _head_counts(attention)["heads"],
                "head_size": attention.head_size,
                "queries": part.queries,
                "keys": part.keys,
                "causal": part.causal,
                "window": window - 1 if window and not part.crosses else None,
                "scale": score.scale if isinstance(score, ProductScore) else None,
            }
        )
    return found


def position_table(model: Any, positions: int) -> tuple[str, Array]:
    """The kind and the rows of `position_rows`."""
    kind, table = position_rows(model, positions)
    return kind, array_of(table)


@torch.no_grad()
def position_rows(model: Any, positions: int) -> tuple[str, Float[Tensor, "positions columns"]]:
    """The kind and one row per position: the vector that is added.

    Rotary positions give cosines and sines instead, ALiBi the penalty of each distance per head.
    """
    anatomy, config = model.anatomy(), getattr(model, "config", None)
    side = next(iter(anatomy.embeddings), anatomy.output_side)
    kind, device = _position_kind(model, side), device_of(model)
    embedding = model.get_submodule(anatomy.embeddings[side]) if anatomy.embeddings else None
    limit = getattr(embedding, "max_positions", getattr(config, "max_positions", positions))
    numbers = torch.arange(min(positions, limit), device=device)
    first = anatomy.attentions[0] if anatomy.attentions else None
    match relative := first and _attention(model, first).relative:
        case Rotary():
            table = torch.cat((relative.cosines[: len(numbers)], relative.sines[: len(numbers)]), -1)
        case Alibi():
            table = -relative.head_slopes[:, 0, 0] * numbers[:, None]
        case _ if kind == "none":
            table = torch.zeros(0, 0)
        case _:
            assert embedding is not None
            empty = torch.zeros(1, len(numbers), width_of(model) or 0, device=device)
            table = embedding.position(empty, numbers, torch.tensor([len(numbers)], device=device))[0]
    return kind, table


def _position_kind(model: Any, side: str) -> str:
    """The kind of positions that a side has: in its embedding, or in its self-attention."""
    anatomy = model.anatomy()
    embedding = model.get_submodule(anatomy.embeddings[side]) if side in anatomy.embeddings else None
    own = [part for part in anatomy.attentions if part.queries == part.keys == side]
    relative = _attention(model, own[0]).relative if own else Relative()
    return position_kind(getattr(embedding, "position", NoPosition()), relative)


def _ffn_width(model: Any, part: StackPart) -> int | None:
    """The width inside the feed-forward networks of a stack; None if it has none."""
    block = model.get_submodule(part.path).blocks[0]
    outer = getattr(getattr(block, "feedforward", None), "outer", None)
    return None if outer is None else outer.in_features


def _attention(model: Any, part: AttentionPart) -> Attention:
    return model.get_submodule(part.path(0))


def _first_attention(model: Any) -> dict[str, Any]:
    """The heads and the score of the first attention; None for a model without attention."""
    anatomy = model.anatomy()
    if not anatomy.attentions:
        return dict.fromkeys(("heads", "kv_heads", "head_size", "score"))
    first, config = _attention(model, anatomy.attentions[0]), getattr(model, "config", None)
    named = getattr(getattr(config, "attention", None), "score", type(first.score).__name__.lower())
    return {**_head_counts(first), "score": named}


def _head_counts(attention: Attention) -> dict[str, int]:
    queries, keys, _ = attention.project.sizes
    size = attention.head_size
    return {"heads": queries // size, "kv_heads": keys // size, "head_size": size}
