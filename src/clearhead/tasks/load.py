"""Any trained model, by its name or folder: what it can be asked depends on its kind."""

from pathlib import Path

import torch

from clearhead.checkpoint import SETTINGS, load_checkpoint
from clearhead.errors import ModelError, SettingsError
from clearhead.models import GPT
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.zoo import find, find_built_in


def load(name: str | Path, device: torch.device | str = "cpu") -> TranslationModel | LanguageModel:
    """The model in a folder, or one in the package by its name."""
    return _loaded(str(name), *find(name), device)


def load_built_in(name: str, device: torch.device | str = "cpu") -> TranslationModel | LanguageModel:
    """A model in the package by its name, whatever folder here has it too."""
    return _loaded(name, *find_built_in(name), device)


def _loaded(
    name: str, folder: Path, direction: Direction | None, device: torch.device | str
) -> TranslationModel | LanguageModel:
    try:
        checkpoint = load_checkpoint(folder, device)
        made = LanguageModel if isinstance(checkpoint.model, GPT) else TranslationModel
        model = made.of(checkpoint)
    except SettingsError as error:
        raise ModelError("\n".join(f"{folder / SETTINGS}: {line}" for line in error.problems)) from None
    model.name = name
    return model.only(direction) if direction and isinstance(model, TranslationModel) else model


def load_translator(name: str | Path, device: torch.device | str = "cpu") -> TranslationModel:
    model = load(name, device)
    if not isinstance(model, TranslationModel):
        raise ModelError(f"{name}: this model continues texts, it does not translate; use clearhead generate")
    return model


def load_language(name: str | Path, device: torch.device | str = "cpu") -> LanguageModel:
    model = load(name, device)
    if not isinstance(model, LanguageModel):
        raise ModelError(f"{name}: this model translates, it continues no texts; use clearhead translate")
    return model
