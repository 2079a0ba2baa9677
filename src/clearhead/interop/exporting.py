"""What all exports of translators share: a model that the library supports, and the names of its tokens."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from clearhead.checkpoint import SETTINGS, Checkpoint, load_checkpoint
from clearhead.errors import ModelError
from clearhead.interop.architecture import flat_settings
from clearhead.models.translator import Translator
from clearhead.text.tokenizer import Tokenizer


def optional_package(name: str, extra: str = "export") -> ModuleType:
    """A package of an optional extra."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ModelError(
            f"{package} is not installed; install it: pip install 'clearhead[{extra}]'"
        ) from None


def load_translator(folder: Path, library: str, supported: Mapping[str, tuple[Any, ...]]) -> Checkpoint:
    """The translator in a folder, if the library supports its settings; they are given by path."""
    checkpoint = load_checkpoint(folder)
    if not isinstance(checkpoint.model, Translator):
        kind = getattr(getattr(checkpoint.model, "config", None), "kind", "model of its kind")
        raise ModelError(f"{folder}: a {kind} cannot be exported to {library}, only a translator")
    settings = flat_settings(checkpoint.model.config)
    heads, width = settings["attention.heads"], settings["width"]
    for name, default in {"attention.kv_heads": heads, "attention.head_size": width // heads}.items():
        settings[name] = None if settings[name] == default else settings[name]
    for name, values in supported.items():
        if settings[name] not in values:
            expected = " or ".join("none" if value is None else repr(value) for value in values)
            raise ModelError(
                f"{folder / SETTINGS}: model.{name}: {settings[name]!r} cannot be exported to {library}, "
                f"which supports {expected}"
            )
    return checkpoint


def token_names(tokenizer: Tokenizer) -> list[str]:
    """The token of each id; an id without one has a name of its own."""
    names = {number: name for name, number in tokenizer.vocabulary().items()}
    return [names.get(number, f"<id{number}>") for number in range(tokenizer.size)]
