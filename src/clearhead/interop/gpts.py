"""Architectures of Hugging Face transformers that a GPT can represent: their settings and tensor names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.errors import ModelError
from clearhead.interop.architecture import (
    ACTIVATIONS,
    PARAMETERS,
    Architecture,
    Files,
    activation_name,
    layers,
    require,
    vocabulary_size,
)
from clearhead.interop.weight_map import Tensors, WeightMap
from clearhead.models.gpt import GPT, GPTConfig
from clearhead.text.tokenizer import Tokenizer


def read_tokenizer(folder: Path, settings: Mapping[str, Any]) -> Tokenizer:
    return Tokenizer.from_huggingface(folder, vocabulary_size(settings))


def write_tokenizer(tokenizer: Tokenizer, config: GPTConfig) -> tuple[dict[str, Any], Files]:
    settings = {
        "vocab_size": tokenizer.size,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": list(tokenizer.eos_ids) if len(tokenizer.eos_ids) > 1 else tokenizer.eos_id,
    }
    return settings, tokenizer.to_huggingface()


def _read_gpt2(settings: Mapping[str, Any]) -> dict[str, Any]:
    require(settings, {"activation_function": tuple(ACTIVATIONS)})
    require(settings, {"scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,)})
    width = settings.get("n_embd", 768)
    return {
        "width": width,
        "ffn_width": settings.get("n_inner") or 4 * width,
        "layers": settings.get("n_layer", 12),
        "attention": {
            "heads": settings.get("n_head", 12),
            "score": "scaled" if settings.get("scale_attn_weights", True) else "dot",
            "dropout": float(settings.get("attn_pdrop", 0.1)),
        },
        "activation": ACTIVATIONS[settings.get("activation_function", "gelu_new")],
        "norm_epsilon": float(settings.get("layer_norm_epsilon", 1e-5)),
        "dropout": float(settings.get("resid_pdrop", 0.1)),
        "context_length": settings.get("n_positions", 1024),
        "tied": "all" if settings.get("tie_word_embeddings", True) else "none",
    }


def _write_gpt2(config: GPTConfig) -> dict[str, Any]:
    return {
        "n_embd": config.width,
        "n_inner": config.ffn_width,
        "n_layer": config.layers,
        "n_head": config.attention.heads,
        "scale_attn_weights": config.attention.score != "dot",
        "attn_pdrop": config.attention.dropout,
        "activation_function": activation_name(config.activation, "gelu_new"),
        "layer_norm_epsilon": config.norm_epsilon or 1e-5,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "n_positions": config.context_length,
        "tie_word_embeddings": config.tied == "all",
    }


def _rope_theta(settings: Mapping[str, Any]) -> float:
    """The base of rotary positions; scaled ones are not supported."""
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type != "default":
        raise ModelError(f"rope_type: {rope_type!r} is not supported; expected 'default'")
    return float(rope.get("rope_theta") or settings.get("rope_theta") or 10000.0)


def _read_llama(settings: Mapping[str, Any]) -> dict[str, Any]:
    bias = bool(settings.get("attention_bias", False))
    require(settings, {"hidden_act": ("silu",), "mlp_bias": (bias,)})
    heads = settings.get("num_attention_heads", 32)
    kv_heads = settings.get("num_key_value_heads") or heads
    width = settings.get("hidden_size", 4096)
    size = settings.get("head_dim") or width // heads
    attention = {"heads": heads, "dropout": float(settings.get("attention_dropout") or 0.0)}
    if kv_heads != heads:
        attention["kv_heads"] = kv_heads
    if size * heads != width:
        attention["head_size"] = size
    return {
        "width": width,
        "ffn_width": settings.get("intermediate_size", 11008),
        "layers": settings.get("num_hidden_layers", 32),
        "attention": attention,
        "position": "rotary",
        "rotary_base": _rope_theta(settings),
        "activation": "swiglu",
        "norm": "rms",
        "norm_epsilon": float(settings.get("rms_norm_eps", 1e-6)),
        "bias": bias,
        "context_length": settings.get("max_position_embeddings", 2048),
        "tied": "all" if settings.get("tie_word_embeddings", False) else "none",
    }


def _write_llama(config: GPTConfig) -> dict[str, Any]:
    return {
        "hidden_size": config.width,
        "intermediate_size": config.ffn_width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.attention.heads,
        "num_key_value_heads": config.attention.kv_heads or config.attention.heads,
        "head_dim": config.head_size,
        "attention_dropout": config.attention.dropout,
        "rope_theta": config.rotary_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base},
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_epsilon or 1e-6,
        "attention_bias": config.bias,
        "mlp_bias": config.bias,
        "max_position_embeddings": config.context_length,
        "tie_word_embeddings": config.tied == "all",
    }


def _read_mistral(settings: Mapping[str, Any]) -> dict[str, Any]:
    window = settings.get("sliding_window", 4096)
    return _read_llama(settings) | ({"window": window} if window else {})


def _write_mistral(config: GPTConfig) -> dict[str, Any]:
    settings = _write_llama(config) | {"sliding_window": config.window}
    return {name: value for name, value in settings.items() if not name.endswith("_bias")}


def _read_qwen3(settings: Mapping[str, Any]) -> dict[str, Any]:
    require(settings, {"use_sliding_window": (False,), "attention_bias": (False,), "rms_norm_eps": (1e-6,)})
    read = _read_llama(settings)
    return read | {"attention": read["attention"] | {"qk_norm": "rms"}}


def _write_qwen3(config: GPTConfig) -> dict[str, Any]:
    return {name: value for name, value in _write_llama(config).items() if name != "mlp_bias"}


LM_HEAD = {"readout_weight": Tensors(("lm_head.weight",))}
GPT2_BLOCK = {
    # Only its matrices, all named c_…, are transposed.
    f"{path}.{kind}": Tensors((f"h.{{}}.{name}.{kind}",), transposed=kind == "weight" and ".c_" in name)
    for path, name in (
        ("attention.project", "attn.c_attn"),
        ("attention.output", "attn.c_proj"),
        ("attention_residual.norm", "ln_1"),
        ("feedforward.inner", "mlp.c_fc"),
        ("feedforward.outer", "mlp.c_proj"),
        ("feedforward_residual.norm", "ln_2"),
    )
    for kind in PARAMETERS
}
GPT2_MODEL = {
    "embedding.weight": Tensors(("wte.weight",)),
    "embedding.position.weight": Tensors(("wpe.weight",)),
    **layers(("decoder.norm", "ln_f")),
}
LAYER = "layers.{}."
LLAMA_BLOCK = layers(
    ("attention.project", tuple(f"{LAYER}self_attn.{letter}_proj" for letter in "qkv")),
    ("attention.output", f"{LAYER}self_attn.o_proj"),
    ("attention.query_norm", f"{LAYER}self_attn.q_norm"),
    ("attention.key_norm", f"{LAYER}self_attn.k_norm"),
    ("attention_residual.norm", f"{LAYER}input_layernorm"),
    ("feedforward.inner", f"{LAYER}mlp.up_proj"),
    ("feedforward.gate", f"{LAYER}mlp.gate_proj"),
    ("feedforward.outer", f"{LAYER}mlp.down_proj"),
    ("feedforward_residual.norm", f"{LAYER}post_attention_layernorm"),
)
LLAMA_MODEL = {
    "embedding.weight": Tensors(("embed_tokens.weight",)),
    "decoder.norm.weight": Tensors(("norm.weight",)),
}
# Buffers that old checkpoints store although they follow from the settings.
IGNORED = (r".*\.rotary_emb\.inv_freq", r".*\.attn\.(masked_)?bias")
GPT2 = WeightMap("transformer.", GPT2_MODEL, {"decoder": GPT2_BLOCK}, LM_HEAD, IGNORED)
LLAMA = WeightMap("model.", LLAMA_MODEL, {"decoder": LLAMA_BLOCK}, LM_HEAD, IGNORED)


def _row(model_type: str, class_name: str, read: Any, write: Any, weights: WeightMap) -> Architecture:
    processor = (read_tokenizer, write_tokenizer)
    return Architecture(model_type, class_name, "language", GPT, read, write, weights, *processor)


GPTS = (
    _row("gpt2", "GPT2LMHeadModel", _read_gpt2, _write_gpt2, GPT2),
    _row("llama", "LlamaForCausalLM", _read_llama, _write_llama, LLAMA),
    _row("mistral", "MistralForCausalLM", _read_mistral, _write_mistral, LLAMA),
    _row("qwen3", "Qwen3ForCausalLM", _read_qwen3, _write_qwen3, LLAMA),
)
