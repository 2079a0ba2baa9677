"""Model cards: what a model is, how to use it, its training data and its scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import nn

from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS
from clearhead.evaluation.metric import Metric


def card(
    *,
    title: str,
    about: str,
    use: Sequence[str],
    data: Sequence[str],
    held_out: str,
    scores: Mapping[str, float],
    metrics: Sequence[Metric],
) -> str:
    """A README in Markdown for a model's folder."""
    by_name = {metric.name: metric for metric in metrics}
    measured = []
    for name, value in scores.items():
        key, _, part = name.partition(" ")
        metric = by_name.get(key, Metric(key, key))
        label = f"{metric.label} {part}" if part else metric.label
        measured.append(f"- {label}: {value:{metric.format}}")
    parts = [
        f"# {title}",
        about,
        "## Use",
        "\n".join(f"    {command}" for command in use),
        "## Training data",
        "\n".join(f"- {line}" for line in data),
        held_out,
        "## Scores on validation data",
        "\n".join(measured) or "- not measured",
        "All settings are in `config.toml`, all measurements in `metrics.jsonl`.\n",
    ]
    return "\n\n".join(filter(None, parts))


def parameter_count(model: nn.Module) -> int:
    """The number of weights of a model; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def data_line(file: str | tuple[str, str]) -> str:
    """A training file by its name; a shipped data set with its licence."""
    shipped = {**SHIPPED, **SHIPPED_TEXTS}
    if isinstance(file, str) and file in shipped:
        return f"{file}: {shipped[file].description} ({shipped[file].licence})"
    return " and ".join(Path(one).name for one in ([file] if isinstance(file, str) else file))
