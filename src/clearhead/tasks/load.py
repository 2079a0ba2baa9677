"""Loading of trained models by name or folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from clearhead import tasks
from clearhead.checkpoint import SETTINGS, Checkpoint, load_checkpoint
from clearhead.config import read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.models.engine import Precision
from clearhead.tasks.zoo import describe, find, find_built_in, task_of

if TYPE_CHECKING:
    from clearhead.tasks.language.model import LanguageModel
    from clearhead.tasks.masked.model import MaskedModel
    from clearhead.tasks.translation.model import TranslationModel


Translators = Literal["en-de", "de-en", "en-fr", "fr-en", "en-de-fr"]
LanguageModels = Literal["shakespeare", "sentences"]
MaskedModels = Literal["masked-en"]


@overload
def load(
    name: Translators, device: torch.device | str = "cpu", precision: Precision = "fp32"
) -> "TranslationModel": ...
@overload
def load(
    name: LanguageModels, device: torch.device | str = "cpu", precision: Precision = "fp32"
) -> "LanguageModel": ...
@overload
def load(
    name: MaskedModels, device: torch.device | str = "cpu", precision: Precision = "fp32"
) -> "MaskedModel": ...
@overload
def load(name: str | Path, device: torch.device | str = "cpu", precision: Precision = "fp32") -> Any: ...
def load(name: str | Path, device: torch.device | str = "cpu", precision: Precision = "fp32") -> Any:
    """The model in a folder, or a built-in one by its name: a TranslationModel, a LanguageModel, …

    Editors know the methods of built-in models; for a folder, say what it holds:
    `model: clearhead.TranslationModel = clearhead.load("runs/mine")`. Models that write text decode in this
    precision: on a CPU, int8 is faster than fp32, and its texts are nearly the same.
    """
    return _load(str(name), *find(name), device, precision=precision)


def load_built_in(name: str, device: torch.device | str = "cpu", precision: Precision = "fp32") -> Any:
    """A built-in model by its name, even where a folder here has the same name."""
    return _load(name, *find_built_in(name), device, precision=precision)


def load_for(
    task: str, name: str | Path, device: torch.device | str = "cpu", precision: Precision = "fp32"
) -> Any:
    """The model by its name or folder, of this task or of one that serves its command."""
    folder, variant = find(name)
    found = describe(folder)
    other = tasks.TASKS[found.task if found else task]
    if other.command == tasks.TASKS[task].command:
        return _load(str(name), folder, variant, device, precision=precision)
    if task in other.serves(read_toml(folder / SETTINGS)):
        return _load(str(name), folder, variant, device, task, precision)
    raise ModelError(f"{name}: this model {other.does}; use {other.command}")


def _load(
    name: str,
    folder: Path,
    variant: str | None,
    device: torch.device | str,
    task: str | None = None,
    precision: Precision = "fp32",
) -> Any:
    """The model of a folder, as one of its own task by default."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device: {str(device)!r}, but torch finds no GPU here; use 'cpu'")
    try:
        checkpoint = load_checkpoint(folder, device)
        model = tasks.TASKS[task or task_of(checkpoint.settings)].load(checkpoint)
    except SettingsError as error:
        raise ModelError("\n".join(f"{folder / SETTINGS}: {line}" for line in error.problems)) from None
    if isinstance(model, Checkpoint):
        return model
    model.name, model.folder, model.precision = name, folder, precision
    return model.variant(variant) if variant else model
