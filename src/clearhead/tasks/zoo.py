"""Finding models without loading them: built-in ones by name, trained ones by folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead import assets, tasks
from clearhead.checkpoint import SETTINGS, WEIGHTS
from clearhead.config import read_toml
from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS
from clearhead.errors import ModelError, SettingsError
from clearhead.tasks.recipe import DEFAULT_TASK
from clearhead.tasks.records import FINAL, TEST, read_metrics

BUILT_IN = {
    name: assets.path(f"models/{name}") for name in ("en-de-fr", "shakespeare", "sentences", "masked-en")
}
"""Folders in the package, by name; a translator can also be loaded by a direction."""
TRAIN = "clearhead train quickstart --out runs/quickstart"


@dataclass(frozen=True)
class ModelInfo:
    """A model as described by the files in its folder."""

    folder: str
    task: str
    variants: tuple[str, ...]
    """Names of its parts: a translator's directions."""
    megabytes: float
    licence: str | None
    """The licence of the shipped data that it was trained on."""
    scores: dict[str, float] = field(default_factory=dict)
    """Scores of the final weights on validation data, by metric."""
    tested: dict[str, float] = field(default_factory=dict)
    """Scores of each variant on test data, if the folder has them."""

    def quality(self) -> str:
        """The scores on test data, else the last metric on validation data, as text."""
        metrics = tasks.TASKS[self.task].metrics
        if self.tested:
            values = (f"{value:{metrics[-1].format}}" for value in self.tested.values())
            return f"{metrics[-1].label} {', '.join(values)}"
        known = [metric for metric in metrics if metric.name in self.scores]
        return known[-1].text(self.scores[known[-1].name]) if known else ""


def find_models(folders: Sequence[Path]) -> list[ModelInfo]:
    """Models in these folders and directly below them, each once."""
    below = {folder: sorted(folder.glob("*/")) for folder in folders}
    candidates = {path.resolve(): path for folder in folders for path in (folder, *below[folder])}
    return [model for path in candidates.values() if (model := describe(path))]


def built_in() -> list[ModelInfo]:
    """The models in the package."""
    return [model for folder in BUILT_IN.values() if (model := describe(folder))]


def find(name: str | Path) -> tuple[Path, str | None]:
    """The folder that a path or built-in name means, and the variant that the name selects.

    A folder with a model takes precedence over a built-in name.
    """
    folder, text = Path(name), str(name)
    if not text:
        raise ModelError("the model's name is empty; give a folder or a built-in name")
    if folder.is_dir() and (is_folder(text) or text not in built_in_names()):
        return folder, None
    return find_built_in(text)


def is_folder(name: str) -> bool:
    """Whether a name means a folder with a model in it."""
    return (Path(name) / SETTINGS).is_file()


def is_model(folder: Path) -> bool:
    """Whether a folder has both settings and weights."""
    return (folder / SETTINGS).is_file() and (folder / WEIGHTS).is_file()


def find_built_in(name: str) -> tuple[Path, str | None]:
    """The folder of a built-in model and its variant, ignoring folders of the same name."""
    # One after the other, because the settings of each task take time to import.
    if name in BUILT_IN and is_model(BUILT_IN[name]):
        return BUILT_IN[name], None
    for folder in BUILT_IN.values():
        if (model := describe(folder)) and name in model.variants:
            return folder, name
    if not (names := built_in_names()):
        raise ModelError(f"{name}: no such model folder, and no model is built in; train one: {TRAIN}")
    raise ModelError(f"{name}: no such model folder; built-in models are {', '.join(names)}")


def built_in_names() -> dict[str, tuple[Path, str | None]]:
    """Every name that a built-in model can be loaded by."""
    found: dict[str, tuple[Path, str | None]] = {}
    for name, folder in BUILT_IN.items():
        if model := describe(folder):
            found.update({variant: (folder, variant) for variant in model.variants})
            found[name] = (folder, None)
    return found


def describe(folder: Path) -> ModelInfo | None:
    """The description of the model in a folder; None if there is none."""
    if not is_model(folder):
        return None
    try:
        settings = read_toml(folder / SETTINGS)
    except SettingsError:
        return None
    task = task_of(settings)
    measured = read_metrics(folder)
    final = next((line for line in reversed(measured) if line["kind"] == FINAL), {})
    test = {name: value for line in measured if line["kind"] == TEST for name, value in line.items()}
    variants = tasks.TASKS[task].Recipe.variants(settings)
    return ModelInfo(
        str(folder),
        task,
        variants,
        round((folder / WEIGHTS).stat().st_size / 1e6, 1),
        _licence(settings),
        {name: round(value, 3) for name, value in final.items() if name not in ("step", "kind")},
        {name: round(test[name], 1) for name in variants if name in test},
    )


def task_of(settings: Mapping[str, Any]) -> str:
    """The task of a model by its saved settings; imported models name only the kind of the model."""
    kind = settings.get("kind")
    if kind in tasks.TASKS:
        return str(kind)
    model = settings.get("model")
    return "language" if isinstance(model, Mapping) and model.get("kind") == "gpt" else DEFAULT_TASK


def _licence(settings: Mapping[str, Any]) -> str | None:
    shipped = {**SHIPPED, **SHIPPED_TEXTS}
    licences = dict.fromkeys(shipped[name].licence for name in _names(settings) if name in shipped)
    return "; ".join(licences) or None


def _names(value: Any) -> list[str]:
    """All strings in nested settings."""
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for one in value for text in _names(one)] if isinstance(value, list) else [str(value)]
