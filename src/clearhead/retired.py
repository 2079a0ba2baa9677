"""Settings of the first edition and their current names, for error messages and scripts/convert.py."""

from collections.abc import Collection, Mapping
from typing import Any

RETIRED_SETTINGS = {
    "model.hidden": "model.ffn_width",
    "model.initial": "model.init",
    "model.longest": "model.max_length",
    "model.norm_place": "model.norm_position",
    "model.attention.key_heads": "model.attention.kv_heads",
    "model.attention.norm": "model.attention.qk_norm",
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
# Where a group has no setting of the first name, it has this one: a GPT's length is its context.
ALTERNATIVES = {"model.max_length": "model.context_length"}
RETIRED_VALUES = {"training.parallel": {"copy": "data_parallel", "shard": "fsdp"}}


def current_name(path: str, names: Collection[str]) -> str | None:
    """The current path of a retired setting, whose group now has these names; None if it is not retired."""
    current = RETIRED_SETTINGS.get(path)
    if current and current.rpartition(".")[2] not in names:
        return ALTERNATIVES.get(current, current)
    return current


def current_value(path: str, value: Any) -> Any:
    """The current spelling of a setting's value."""
    return RETIRED_VALUES.get(path, {}).get(value, value) if isinstance(value, str) else value


def renaming(path: str, value: Any, names: Collection[str]) -> str | None:
    """What to say of an unknown setting or value; None if it was never known."""
    if name := current_name(path, names):
        return f"renamed to {name}"
    current = current_value(path, value)
    return f"{value!r} was renamed to {current!r}" if current != value else None


def converted(settings: Mapping[str, Any], names: Collection[str] = (), group: str = "") -> dict[str, Any]:
    """Settings under their current names, in the same order; `names` are those of the model's settings."""
    result = {}
    for name, value in settings.items():
        path = group + name
        current = (current_name(path, names) or path).removeprefix(group)
        inner = isinstance(value, Mapping)
        result[current] = converted(value, names, f"{path}.") if inner else current_value(path, value)
    return result


def is_first_edition(settings: Mapping[str, Any]) -> bool:
    """Whether settings have retired names or values."""
    return converted(settings) != settings
