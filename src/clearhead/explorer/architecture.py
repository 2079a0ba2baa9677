"""A model as a map: its parts and their sizes."""

from typing import Any

from clearhead.layers.scores import ProductScore
from clearhead.models import GPT, Translator
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.translation.model import TranslationModel
from clearhead.text.tokenizer import Tokenizer

Model = TranslationModel | LanguageModel
SUBLAYERS = ("attention", "feedforward")
CROSS_SUBLAYERS = ("attention", "cross_attention", "feedforward")


def kind_of(model: Model) -> str:
    return "translator" if isinstance(model, TranslationModel) else "gpt"


def most_tokens(model: Model) -> int:
    """The most tokens of a text, signs not counted."""
    return model.max_length if isinstance(model, TranslationModel) else model.context_length - len(model.lead)


def architecture(model: Model, name: str) -> dict[str, Any]:
    """The map of a model."""
    return {
        **bare_architecture(model.model, model.tokenizer, name),
        "languages": _languages(model),
        "most_tokens": most_tokens(model),
        "beam": model.search.beam if isinstance(model, TranslationModel) else None,
        "alpha": model.search.length_penalty if isinstance(model, TranslationModel) else None,
    }


def bare_architecture(model: Translator | GPT, tokenizer: Tokenizer, name: str) -> dict[str, Any]:
    """The part of the map that does not depend on how the model is used."""
    config, heads = model.config, model.config.attention.heads
    return {
        "name": name,
        "kind": config.kind,
        "languages": [],
        "width": config.width,
        "hidden": config.ffn_width,
        "heads": heads,
        "kv_heads": config.attention.kv_heads or heads,
        "size": config.head_size,
        "vocabulary": model.readout_weight.shape[0],
        "max_length": config.max_positions,
        "most_tokens": config.max_positions,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "position": config.position,
        "norm": config.norm,
        "norm_position": config.norm_position,
        "activation": config.activation,
        "score": config.attention.score,
        "tied": config.tied,
        "tokenizer": tokenizer.config.kind,
        "beam": None,
        "alpha": None,
        "stacks": stacks(model),
        "attentions": attentions(model),
    }


def stacks(model: Translator | GPT) -> list[dict[str, Any]]:
    """The stacks in the order in which a text runs through them."""
    if isinstance(model, GPT):
        return [_stack("decoder", model.config.layers, "text", SUBLAYERS)]
    return [
        _stack("encoder", model.config.encoder_layers, "source", SUBLAYERS),
        _stack("decoder", model.config.decoder_layers, "target", CROSS_SUBLAYERS),
    ]


def attentions(model: Translator | GPT) -> list[dict[str, Any]]:
    """The kinds of attention; each is in every layer of its stack."""
    if isinstance(model, GPT):
        return [_attention(model, "decoder", "decoder", "attention", ("text", "text"), causal=True)]
    return [
        _attention(model, "encoder", "encoder", "attention", ("source", "source"), causal=False),
        _attention(model, "decoder", "decoder", "attention", ("target", "target"), causal=True),
        _attention(model, "cross", "decoder", "cross_attention", ("target", "source"), causal=False),
    ]


def _languages(model: Model) -> list[dict[str, str]]:
    if isinstance(model, LanguageModel):
        return []
    return [{"source": one.source, "target": one.target} for one in model.directions]


def _stack(name: str, layers: int, side: str, sublayers: tuple[str, ...]) -> dict[str, Any]:
    return {"name": name, "layers": layers, "side": side, "sublayers": list(sublayers)}


def _attention(
    model: Translator | GPT, key: str, stack: str, sublayer: str, sides: tuple[str, str], causal: bool
) -> dict[str, Any]:
    blocks = model.get_submodule(f"{stack}.blocks")
    score = model.get_submodule(f"{stack}.blocks.0.{sublayer}.score")
    reach = model.config.window - 1 if model.config.window else None
    return {
        "key": key,
        "path": f"{stack}.blocks.*.{sublayer}",
        "kind": "cross" if sublayer == "cross_attention" else "self",
        "stack": stack,
        "layers": len(list(blocks.children())),
        "heads": model.config.attention.heads,
        "queries": sides[0],
        "keys": sides[1],
        "causal": causal,
        "window": None if sublayer == "cross_attention" else reach,
        "scale": score.scale if isinstance(score, ProductScore) else None,
    }
