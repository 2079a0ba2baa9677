"""Settings of the first edition and their current names, for error messages and scripts/convert.py."""

from collections.abc import Collection, Mapping
from typing import Any

RETIRED_SETTINGS = {
    "data.cleaning.longest_characters": "data.cleaning.max_characters",
    "data.cleaning.longest_words": "data.cleaning.max_words",
    "model.hidden": "model.ffn_width",
    "model.initial": "model.init",
    "model.longest": "model.max_length",
    "model.norm_place": "model.norm_position",
    "model.attention.key_heads": "model.attention.kv_heads",
    "model.attention.norm": "model.attention.qk_norm",
    "model.attention.size": "model.attention.head_size",
    "batches.places": "batches.row_length",
    "training.begin": "training.init_from",
    "training.clip": "training.clip_norm",
    "training.ema": "training.ema_decay",
    "training.smoothing": "training.label_smoothing",
    "training.stop_on": "training.monitor",
    "training.schedule.peak": "training.schedule.learning_rate",
    "training.regulariser.alpha": "training.regulariser.weight",
    "search.alpha": "search.length_penalty",
}
# Used if the first name is unknown: a GPT has a context length.
ALTERNATIVES = {"model.max_length": "model.context_length"}
RETIRED_VALUES = {"training.parallel": {"copy": "data_parallel", "shard": "fsdp"}}


def current_name(path: str, known: Collection[str]) -> str | None:
    """The current path of a retired setting; None if it is still known or never was."""
    current = None if path in known else RETIRED_SETTINGS.get(path)
    return ALTERNATIVES.get(current, current) if current and current not in known else current


def current_value(path: str, value: Any) -> Any:
    """The current spelling of a setting's value."""
    return RETIRED_VALUES.get(path, {}).get(value, value) if isinstance(value, str) else value


def renaming(path: str, value: Any, known: Collection[str]) -> str | None:
    """The message for a retired setting or value; None for any other."""
    if name := current_name(path, known):
        return f"renamed to {name}"
    current = current_value(path, value)
    return f"{value!r} was renamed to {current!r}" if current != value else None


def is_first_edition(settings: Mapping[str, Any]) -> bool:
    """Whether a folder's settings, which are always complete, are those of the first edition."""
    model = settings.get("model")
    return isinstance(model, Mapping) and "longest" in model
