"""The map of a model: its parts and their sizes, read from its anatomy."""

from collections.abc import Mapping
from typing import Any

from clearhead.explorer.explorable import DEFAULT_ABOUT, Explorable, about
from clearhead.layers.attention import Attention
from clearhead.layers.scores import ProductScore
from clearhead.models.anatomy import AttentionPart
from clearhead.text.tokenizer import Tokenizer

SETTINGS = ("ffn_width", "position", "norm", "norm_position", "activation", "tied")


def architecture(model: Explorable, name: str) -> dict[str, Any]:
    """The map of a model in use."""
    return module_map(model.model, name, getattr(model, "tokenizer", None), about(model))


def module_map(
    model: Any, name: str, tokenizer: Any, usage: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The map of a torch module; `usage` is what `about` returns for the model in use."""
    anatomy, config = model.anatomy(), getattr(model, "config", None)
    first = _attention(model, anatomy.attentions[0])
    readout = getattr(model, "readout_weight", None)
    max_length = getattr(config, "max_positions", None)
    return {
        "name": name,
        "kind": getattr(config, "kind", type(model).__name__),
        "width": first.project.in_features,
        **{setting: getattr(config, setting, None) for setting in SETTINGS},
        **_head_counts(first),
        "score": getattr(getattr(config, "attention", None), "score", type(first.score).__name__.lower()),
        "vocabulary": None if readout is None else readout.shape[0],
        "max_length": max_length,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "tokenizer": tokenizer.config.kind if isinstance(tokenizer, Tokenizer) else None,
        "output_side": anatomy.output_side,
        **(usage or {**DEFAULT_ABOUT, "max_tokens": max_length}),
        "stacks": [
            {"name": part.path, "layers": part.layers, "side": part.side, "sublayers": list(part.sublayers)}
            for part in anatomy.stacks
        ],
        "attentions": attentions(model),
    }


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


def _attention(model: Any, part: AttentionPart) -> Attention:
    return model.get_submodule(part.path(0))


def _head_counts(attention: Attention) -> dict[str, int]:
    queries, keys, _ = attention.project.sizes
    size = attention.head_size
    return {"heads": queries // size, "kv_heads": keys // size, "head_size": size}
