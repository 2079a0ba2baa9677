"""The models of Hugging Face's transformers library that ours can be: their settings and names of tensors."""

from collections.abc import Mapping
from typing import Any

from clearhead.errors import ModelError
from clearhead.interop.weight_map import READOUT, Family, WeightMap
from clearhead.models.gpt import GPTConfig

GELUS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
FREE = ("init", "norm_epsilon", "dropout", "attention.dropout")
"""Settings that a trained model computes the same without, or that both sides have a default for."""


def family_of(settings: Mapping[str, Any]) -> Family:
    """The family of a model by its settings in their library."""
    kind = settings.get("model_type")
    found = next((family for family in FAMILIES if family.kind == kind), None)
    if found is None:
        raise ModelError(f"model_type: {kind!r} is not one of {', '.join(one.kind for one in FAMILIES)}")
    return found


def family_for(config: GPTConfig) -> Family:
    """The family that holds a model of ours exactly."""
    kind = "gpt2"
    if config.position == "rotary":
        kind = "qwen3" if config.attention.qk_norm == "rms" else "mistral" if config.window else "llama"
    family = next(family for family in FAMILIES if family.kind == kind)
    theirs = _flat(GPTConfig.model_validate(family.read(family.written(config))))
    differing = [name for name, value in _flat(config).items() if name not in FREE and value != theirs[name]]
    if differing:
        first, own = differing[0], _flat(config)
        way = " and ".join(_wanted(name, theirs[name]) for name in differing)
        raise ModelError(
            f"model.{first}: {own[first]!r} has no place in their library: the nearest models there, {kind}, "
            f"have {theirs[first]!r}; a model trained {way} can go there"
        )
    return family


def _wanted(name: str, value: Any) -> str:
    """How to train with another value."""
    if value is None:
        return f"without model.{name}"
    return f"with --set model.{name}={str(value).lower() if isinstance(value, bool) else value}"


def _flat(config: GPTConfig) -> dict[str, Any]:
    """All settings by name, nothing left out."""
    values = config.model_dump()
    inner = values.pop("attention")
    inner |= {"kv_heads": inner["kv_heads"] or inner["heads"], "head_size": config.head_size}
    return values | {f"attention.{name}": value for name, value in inner.items()}


def _refuse(settings: Mapping[str, Any], wanted: Mapping[str, tuple[Any, ...]]) -> None:
    """Settings that ask for what we do not compute."""
    for name, allowed in wanted.items():
        if name in settings and settings[name] not in allowed:
            raise ModelError(f"{name}: {settings[name]!r} is not supported, but {allowed[0]!r}")


def _gpt2(settings: Mapping[str, Any]) -> dict[str, Any]:
    _refuse(
        settings,
        {
            "activation_function": tuple(GELUS),
            "scale_attn_by_inverse_layer_idx": (False,),
            "add_cross_attention": (False,),
        },
    )
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
        "activation": GELUS[settings.get("activation_function", "gelu_new")],
        "norm_epsilon": float(settings.get("layer_norm_epsilon", 1e-5)),
        "dropout": float(settings.get("resid_pdrop", 0.1)),
        "context_length": settings.get("n_positions", 1024),
        "tied": "all" if settings.get("tie_word_embeddings", True) else "none",
    }


def _as_gpt2(config: GPTConfig) -> dict[str, Any]:
    named = {ours: theirs for theirs, ours in reversed(GELUS.items())}
    return {
        "n_embd": config.width,
        "n_inner": config.ffn_width,
        "n_layer": config.layers,
        "n_head": config.attention.heads,
        "scale_attn_weights": config.attention.score != "dot",
        "attn_pdrop": config.attention.dropout,
        "activation_function": named.get(config.activation, "gelu_new"),
        "layer_norm_epsilon": config.norm_epsilon or 1e-5,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "n_positions": config.context_length,
        "tie_word_embeddings": config.tied == "all",
    }


def _rotary(settings: Mapping[str, Any]) -> float:
    """How fast rotary positions turn; ways of stretching them are not known here."""
    told = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    kind = told.get("rope_type", told.get("type", "default"))
    if kind != "default":
        raise ModelError(f"rope_type: {kind!r} is not supported, but 'default'")
    return float(told.get("rope_theta") or settings.get("rope_theta") or 10000.0)


def _llama(settings: Mapping[str, Any]) -> dict[str, Any]:
    bias = bool(settings.get("attention_bias", False))
    _refuse(settings, {"hidden_act": ("silu",), "mlp_bias": (bias,)})
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
        "rotary_base": _rotary(settings),
        "activation": "swiglu",
        "norm": "rms",
        "norm_epsilon": float(settings.get("rms_norm_eps", 1e-6)),
        "bias": bias,
        "context_length": settings.get("max_position_embeddings", 2048),
        "tied": "all" if settings.get("tie_word_embeddings", False) else "none",
    }


def _as_llama(config: GPTConfig) -> dict[str, Any]:
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


def _mistral(settings: Mapping[str, Any]) -> dict[str, Any]:
    window = settings.get("sliding_window", 4096)
    return _llama(settings) | ({"window": window} if window else {})


def _as_mistral(config: GPTConfig) -> dict[str, Any]:
    written = _as_llama(config) | {"sliding_window": config.window}
    return {name: value for name, value in written.items() if not name.endswith("_bias")}


def _qwen3(settings: Mapping[str, Any]) -> dict[str, Any]:
    _refuse(settings, {"use_sliding_window": (False,), "attention_bias": (False,), "rms_norm_eps": (1e-6,)})
    read = _llama(settings)
    return read | {"attention": read["attention"] | {"norm": "rms"}}


def _as_qwen3(config: GPTConfig) -> dict[str, Any]:
    written = _as_llama(config)
    del written["mlp_bias"]
    return written


GPT2_BLOCK = {
    "attention.project.weight": WeightMap(("h.{}.attn.c_attn.weight",), turned=True),
    "attention.project.bias": WeightMap(("h.{}.attn.c_attn.bias",)),
    "attention.output.weight": WeightMap(("h.{}.attn.c_proj.weight",), turned=True),
    "attention.output.bias": WeightMap(("h.{}.attn.c_proj.bias",)),
    "attention_residual.norm.weight": WeightMap(("h.{}.ln_1.weight",)),
    "attention_residual.norm.bias": WeightMap(("h.{}.ln_1.bias",)),
    "feedforward.inner.weight": WeightMap(("h.{}.mlp.c_fc.weight",), turned=True),
    "feedforward.inner.bias": WeightMap(("h.{}.mlp.c_fc.bias",)),
    "feedforward.outer.weight": WeightMap(("h.{}.mlp.c_proj.weight",), turned=True),
    "feedforward.outer.bias": WeightMap(("h.{}.mlp.c_proj.bias",)),
    "feedforward_residual.norm.weight": WeightMap(("h.{}.ln_2.weight",)),
    "feedforward_residual.norm.bias": WeightMap(("h.{}.ln_2.bias",)),
}
GPT2_REST = {
    "embedding.weight": WeightMap(("wte.weight",)),
    "embedding.position.weight": WeightMap(("wpe.weight",)),
    "decoder.norm.weight": WeightMap(("ln_f.weight",)),
    "decoder.norm.bias": WeightMap(("ln_f.bias",)),
    "readout_weight": WeightMap((READOUT,)),
}
QUERY_KEY_VALUE = tuple(f"layers.{{}}.self_attn.{letter}_proj" for letter in "qkv")
LLAMA_BLOCK = {
    **{
        f"attention.project.{kind}": WeightMap(tuple(f"{name}.{kind}" for name in QUERY_KEY_VALUE))
        for kind in ("weight", "bias")
    },
    **{
        f"{ours}.{kind}": WeightMap((f"layers.{{}}.{theirs}.{kind}",))
        for kind in ("weight", "bias")
        for ours, theirs in (
            ("attention.output", "self_attn.o_proj"),
            ("attention.query_norm", "self_attn.q_norm"),
            ("attention.key_norm", "self_attn.k_norm"),
            ("attention_residual.norm", "input_layernorm"),
            ("feedforward.inner", "mlp.up_proj"),
            ("feedforward.gate", "mlp.gate_proj"),
            ("feedforward.outer", "mlp.down_proj"),
            ("feedforward_residual.norm", "post_attention_layernorm"),
        )
    },
}
LLAMA_REST = {
    "embedding.weight": WeightMap(("embed_tokens.weight",)),
    "decoder.norm.weight": WeightMap(("norm.weight",)),
    "readout_weight": WeightMap((READOUT,)),
}
FAMILIES = (
    Family("gpt2", "GPT2LMHeadModel", "transformer.", _gpt2, _as_gpt2, GPT2_REST, GPT2_BLOCK),
    Family("llama", "LlamaForCausalLM", "model.", _llama, _as_llama, LLAMA_REST, LLAMA_BLOCK),
    Family("mistral", "MistralForCausalLM", "model.", _mistral, _as_mistral, LLAMA_REST, LLAMA_BLOCK),
    Family("qwen3", "Qwen3ForCausalLM", "model.", _qwen3, _as_qwen3, LLAMA_REST, LLAMA_BLOCK),
)
