"""Architectures of Hugging Face transformers that a GPT can represent: their settings and tensor names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.errors import ModelError
from clearhead.interop.weight_map import LM_HEAD, Tensors, WeightMap
from clearhead.models.gpt import GPTConfig

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
# Settings that do not change what a trained model computes, or that both libraries default alike.
IRRELEVANT = ("init", "norm_epsilon", "dropout", "attention.dropout")


@dataclass(frozen=True)
class Architecture:
    """One `model_type` of transformers."""

    model_type: str
    class_name: str
    read_settings: Callable[[Mapping[str, Any]], dict[str, Any]]
    """From config.json to GPTConfig's fields."""
    write_settings: Callable[[GPTConfig], dict[str, Any]]
    weights: WeightMap


def architecture_of(settings: Mapping[str, Any]) -> Architecture:
    """The architecture that a config.json names."""
    model_type = settings.get("model_type")
    if model_type not in ARCHITECTURES:
        raise ModelError(f"model_type: {model_type!r} is not one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[model_type]


def architecture_for(config: GPTConfig) -> Architecture:
    """The architecture that represents a GPT exactly."""
    model_type = "gpt2"
    if config.position == "rotary":
        model_type = "qwen3" if config.attention.qk_norm == "rms" else "mistral" if config.window else "llama"
    architecture = ARCHITECTURES[model_type]
    wanted = _flat(config)
    closest = _flat(GPTConfig.model_validate(architecture.read_settings(architecture.write_settings(config))))
    differing = [name for name in wanted if name not in IRRELEVANT and wanted[name] != closest[name]]
    if differing:
        first = differing[0]
        fix = " and ".join(_training_option(name, closest[name]) for name in differing)
        raise ModelError(
            f"model.{first}: {wanted[first]!r} cannot be exported: the closest architecture of Hugging Face, "
            f"{model_type}, has {closest[first]!r}; train a model {fix}"
        )
    return architecture


def _training_option(name: str, value: Any) -> str:
    if value is None:
        return f"without model.{name}"
    return f"with --set model.{name}={str(value).lower() if isinstance(value, bool) else value}"


def _flat(config: GPTConfig) -> dict[str, Any]:
    """All settings by path, with derived defaults filled in."""
    values = config.model_dump()
    attention = values.pop("attention")
    attention |= {"kv_heads": attention["kv_heads"] or attention["heads"], "head_size": config.head_size}
    return values | {f"attention.{name}": value for name, value in attention.items()}


def _require(settings: Mapping[str, Any], supported: Mapping[str, tuple[Any, ...]]) -> None:
    for name, values in supported.items():
        if name in settings and settings[name] not in values:
            expected = " or ".join(map(repr, values))
            raise ModelError(f"{name}: {settings[name]!r} is not supported; expected {expected}")


def _read_gpt2(settings: Mapping[str, Any]) -> dict[str, Any]:
    _require(settings, {"activation_function": tuple(ACTIVATIONS)})
    _require(settings, {"scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,)})
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
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {
        "n_embd": config.width,
        "n_inner": config.ffn_width,
        "n_layer": config.layers,
        "n_head": config.attention.heads,
        "scale_attn_weights": config.attention.score != "dot",
        "attn_pdrop": config.attention.dropout,
        "activation_function": names.get(config.activation, "gelu_new"),
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
    _require(settings, {"hidden_act": ("silu",), "mlp_bias": (bias,)})
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
    _require(settings, {"use_sliding_window": (False,), "attention_bias": (False,), "rms_norm_eps": (1e-6,)})
    read = _read_llama(settings)
    return read | {"attention": read["attention"] | {"qk_norm": "rms"}}


def _write_qwen3(config: GPTConfig) -> dict[str, Any]:
    return {name: value for name, value in _write_llama(config).items() if name != "mlp_bias"}


PARAMETERS = ("weight", "bias")
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
    "decoder.norm.weight": Tensors(("ln_f.weight",)),
    "decoder.norm.bias": Tensors(("ln_f.bias",)),
    "readout_weight": Tensors((LM_HEAD,)),
}
QKV = tuple(f"layers.{{}}.self_attn.{letter}_proj" for letter in "qkv")
LLAMA_BLOCK = {
    f"attention.project.{kind}": Tensors(tuple(f"{name}.{kind}" for name in QKV)) for kind in PARAMETERS
} | {
    f"{path}.{kind}": Tensors((f"layers.{{}}.{name}.{kind}",))
    for kind in PARAMETERS
    for path, name in (
        ("attention.output", "self_attn.o_proj"),
        ("attention.query_norm", "self_attn.q_norm"),
        ("attention.key_norm", "self_attn.k_norm"),
        ("attention_residual.norm", "input_layernorm"),
        ("feedforward.inner", "mlp.up_proj"),
        ("feedforward.gate", "mlp.gate_proj"),
        ("feedforward.outer", "mlp.down_proj"),
        ("feedforward_residual.norm", "post_attention_layernorm"),
    )
}
LLAMA_MODEL = {
    "embedding.weight": Tensors(("embed_tokens.weight",)),
    "decoder.norm.weight": Tensors(("norm.weight",)),
    "readout_weight": Tensors((LM_HEAD,)),
}
GPT2 = WeightMap("transformer.", GPT2_MODEL, GPT2_BLOCK)
LLAMA = WeightMap("model.", LLAMA_MODEL, LLAMA_BLOCK)
ARCHITECTURES = {
    one.model_type: one
    for one in (
        Architecture("gpt2", "GPT2LMHeadModel", _read_gpt2, _write_gpt2, GPT2),
        Architecture("llama", "LlamaForCausalLM", _read_llama, _write_llama, LLAMA),
        Architecture("mistral", "MistralForCausalLM", _read_mistral, _write_mistral, LLAMA),
        Architecture("qwen3", "Qwen3ForCausalLM", _read_qwen3, _write_qwen3, LLAMA),
    )
}
