"""Model cards: what a model is, how to use it, its training data and its scores."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import nn

from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS
from clearhead.evaluation.metric import Metric
from clearhead.training import ParentConfig

PARENT, SCORES = "Parent", "Scores on validation data"


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
        f"## {SCORES}",
        "\n".join(measured) or "- not measured",
        "All settings are in `config.toml`, all measurements in `metrics.jsonl`.\n",
    ]
    return "\n\n".join(filter(None, parts))


def with_section(text: str, title: str, body: str, before: str | None = None) -> str:
    """A card with a section, which replaces one of the same title; placed before another, or at the end."""
    parts = re.split(r"(?m)^(?=## )", text)
    parts = [part for part in parts if not part.startswith(f"## {title}\n")]
    position = next((n for n, part in enumerate(parts) if before and part.startswith(f"## {before}")), None)
    if position is None:
        parts[-1] = parts[-1].rstrip("\n") + "\n\n" if parts[-1].strip() else ""
        position = len(parts)
    parts.insert(position, f"## {title}\n\n{body}\n" + ("\n" if position < len(parts) else ""))
    return "".join(parts)


def card_of_copy(text: str, folder: Path) -> str:
    """The card for a copy of a model: without the held-out files that are not in its folder."""
    found = re.search(r"(?m)^(`.+`) (?:was|were) held out(?: from training)?\.$", text)
    if not found or all((folder / name).exists() for name in re.findall("`(.+?)`", found[1])):
        return text
    text = text.replace(found[0], "The data held out from training is not part of this copy.")
    return re.sub(r"(?m)^    clearhead evaluate THIS-FOLDER.*\n", "", text)


def parameter_count(model: nn.Module) -> int:
    """The number of weights of a model; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def data_line(file: str | Sequence[str]) -> str:
    """A training file by its name; a shipped data set with its licence."""
    shipped = {**SHIPPED, **SHIPPED_TEXTS}
    if isinstance(file, str) and file in shipped:
        return f"{file}: {shipped[file].description} ({shipped[file].licence})"
    return file_label(file)


def file_label(file: str | Sequence[str]) -> str:
    """The name of a file without its folder, or of two aligned files."""
    return " and ".join(Path(one).name for one in ([file] if isinstance(file, str) else file))


def with_parents(text: str, parents: Sequence[ParentConfig]) -> str:
    """A card that names the models that this one was fine-tuned from, with their data and licences."""
    if not parents:
        return text
    lines, child = [], "This model"
    for parent in parents:
        lines.append(f"{child} was fine-tuned from **{parent.name}** ({parent.parameters:,} parameters).")
        lines.append(f"{parent.name} was trained on:")
        lines.append("\n".join(f"- {data_line(file)}" for file in parent.data) or "- data that is not known")
        child = parent.name
    return with_section(text, PARENT, "\n\n".join(lines), before=SCORES)
