"""Exports translators and GPTs to CTranslate2, an inference engine for CPUs and GPUs (Klein et al. 2020)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.checkpoint import ORIGIN
from clearhead.errors import ModelError
from clearhead.files import check_new_folder
from clearhead.interop.architecture import write_files
from clearhead.interop.exporting import Supported, load_supported, optional_package, token_names
from clearhead.interop.gpts import write_tokenizer
from clearhead.interop.translators import write_processor
from clearhead.layers.attention import Attention
from clearhead.layers.block import Block, Stack
from clearhead.layers.embedding import Embedding
from clearhead.models.gpt import GPT
from clearhead.models.translator import Translator
from clearhead.text.tokenizer import BOS, EOS, SPECIAL_TOKENS, UNK, Tokenizer

PRECISIONS = {"fp32": None, "fp16": "float16", "bf16": "bfloat16", "int16": "int16", "int8": "int8"}
"""The library's name of each precision."""
# The library's name of each activation.
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH"}
# The gated feed-forward network that the library knows.
GATED = "swiglu"
TRANSLATORS: Supported = {
    "position": ("sinusoidal", "learned"),
    "norm": ("layer",),
    "activation": tuple(ACTIVATIONS),
    "attention.score": ("scaled",),
    "attention.qk_norm": ("none",),
    "attention.kv_heads": (None,),
    "attention.head_size": (None,),
    "window": (None,),
}
GPTS: Supported = {
    "position": ("learned", "sinusoidal", "rotary"),
    "norm_position": ("pre",),
    "activation": (*ACTIVATIONS, GATED),
    "attention.score": ("scaled",),
    "attention.qk_norm": ("none",),
    "window": (None,),
}


def export_ctranslate2(folder: Path, out: Path, precision: str = "fp32") -> None:
    """Writes a translator or GPT as a folder for CTranslate2, with its tokenizer in Hugging Face's format."""
    if precision not in PRECISIONS:
        raise ModelError(f"precision {precision}: is not one of {', '.join(PRECISIONS)}")
    check_new_folder(out)
    specs = optional_package("ctranslate2.specs")
    checkpoint = load_supported(folder, "CTranslate2", {Translator: TRANSLATORS, GPT: GPTS})
    model: Any = checkpoint.model
    tokens = token_names(checkpoint.processor)
    if isinstance(model, GPT):
        spec = _gpt_spec(specs, model, checkpoint.processor, tokens)
        _, files = write_tokenizer(checkpoint.processor, model.config)
    else:
        spec = _translator_spec(specs, model, tokens)
        _, files = write_processor(checkpoint.processor, model.config)
    spec.config.add_attribute(ORIGIN, folder.resolve().name)
    spec.validate()
    spec.optimize(quantization=PRECISIONS[precision])
    write_files(out, files, folder)
    spec.save(str(out))


@torch.no_grad()
def _translator_spec(specs: Any, model: Translator, tokens: list[str]) -> Any:
    """The library's description of a translator, with its weights."""
    config = model.config
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.attention.heads,
        pre_norm=config.norm_position == "pre",
        activation=getattr(specs.Activation, ACTIVATIONS[config.activation]),
    )
    spec.config.layer_norm_epsilon = config.norm_epsilon or 1e-5
    spec.config.bos_token, spec.config.eos_token = SPECIAL_TOKENS[BOS], SPECIAL_TOKENS[EOS]
    spec.config.unk_token, spec.config.decoder_start_token = SPECIAL_TOKENS[UNK], SPECIAL_TOKENS[BOS]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    _set_embedding(spec.encoder.embeddings[0], spec.encoder, model.source_embedding)
    _set_embedding(spec.decoder.embeddings, spec.decoder, model.target_embedding)
    _set_stack(spec.encoder, model.encoder)
    _set_stack(spec.decoder, model.decoder)
    spec.decoder.projection.weight = _array(model.readout_weight)
    if model.readout_bias is not None:
        spec.decoder.projection.bias = _array(model.readout_bias)
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    return spec


@torch.no_grad()
def _gpt_spec(specs: Any, model: GPT, tokenizer: Tokenizer, tokens: list[str]) -> Any:
    """The library's description of a GPT, with its weights."""
    config, gated, rms = model.config, model.config.activation == GATED, model.config.norm == "rms"
    heads, kv_heads = config.attention.heads, config.attention.kv_heads
    spec = specs.TransformerDecoderModelSpec.from_config(
        config.layers,
        heads,
        activation=getattr(specs.Activation, "SWISH" if gated else ACTIVATIONS[config.activation]),
        ffn_glu=gated,
        rms_norm=rms,
        rotary_dim=0 if config.position == "rotary" else None,
        rotary_interleave=False,
        rotary_base=config.rotary_base,
        num_heads_kv=None if kv_heads == heads else kv_heads,
        head_dim=config.attention.head_size,
    )
    spec.config.layer_norm_epsilon = config.norm_epsilon or (1e-6 if rms else 1e-5)
    names = {
        "unk": UNK if tokenizer.special_tokens else None,
        "bos": tokenizer.bos_id,
        "eos": tokenizer.eos_id,
    }
    for name, number in names.items():
        # The library needs all three; a name of its own is never generated.
        setattr(spec.config, f"{name}_token", f"<no {name}>" if number is None else tokens[number])
    _set_embedding(spec.decoder.embeddings, spec.decoder, model.embedding)
    spec.decoder.scale_embeddings = False
    _set_stack(spec.decoder, model.decoder)
    spec.decoder.projection.weight = _array(model.readout_weight)
    spec.register_vocabulary(tokens)
    return spec


def _set_embedding(embedding: Any, side: Any, ours: Embedding) -> None:
    embedding.weight = _array(ours.weight)
    side.scale_embeddings = True
    if not hasattr(side, "position_encodings"):
        return
    # The positions added to zeros are the position encodings.
    zeros = ours.weight.new_zeros(1, ours.max_positions, ours.weight.shape[1])
    side.position_encodings.encodings = _array(ours.position(zeros, torch.arange(ours.max_positions))[0])


def _set_stack(side: Any, stack: Stack) -> None:
    if not isinstance(stack.norm, nn.Identity):
        _set_norm(side.layer_norm, stack.norm)
    for layer, block in zip(side.layer, _blocks(stack), strict=True):
        _set_norm(layer.self_attention.layer_norm, block.attention_residual.norm)
        _set_linears(layer.self_attention.linear, block.attention, ("qkv",))
        if hasattr(block, "cross_attention"):
            _set_norm(layer.attention.layer_norm, block.cross_residual.norm)
            _set_linears(layer.attention.linear, block.cross_attention, ("q", "kv"))
        feedforward: Any = block.feedforward
        _set_norm(layer.ffn.layer_norm, block.feedforward_residual.norm)
        gated = hasattr(feedforward, "gate")
        first = feedforward.gate if gated else feedforward.inner
        _set_linear(layer.ffn.linear_0, first.weight, first.bias)
        if gated:
            _set_linear(layer.ffn.linear_0_noact, feedforward.inner.weight, feedforward.inner.bias)
        _set_linear(layer.ffn.linear_1, feedforward.outer.weight, feedforward.outer.bias)


def _blocks(stack: Stack) -> Iterator[Any]:
    for block in stack.blocks:
        assert isinstance(block, Block)
        yield block


def _set_linears(linears: Any, attention: Attention, groups: tuple[str, ...]) -> None:
    """Sets the projections, each group of letters as one matrix, and the output."""
    project, output = attention.project, attention.output
    weights = dict(zip("qkv", project.weight.split(project.sizes), strict=True))
    biases = (
        dict(zip("qkv", project.bias.split(project.sizes), strict=True)) if project.bias is not None else {}
    )
    for linear, letters in zip(linears, groups, strict=False):
        bias = torch.cat([biases[letter] for letter in letters]) if biases else None
        _set_linear(linear, torch.cat([weights[letter] for letter in letters]), bias)
    _set_linear(linears[-1], output.weight, output.bias)


def _set_linear(linear: Any, weight: Tensor, bias: Tensor | None) -> None:
    linear.weight = _array(weight)
    if bias is not None:
        linear.bias = _array(bias)


def _set_norm(norm: Any, ours: Any) -> None:
    norm.gamma = _array(ours.weight)
    if hasattr(norm, "beta"):
        norm.beta = np.zeros_like(norm.gamma) if ours.bias is None else _array(ours.bias)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().contiguous().numpy()
