"""What exports to inference engines share: a model that the library supports, and the names of its tokens."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from clearhead.checkpoint import SETTINGS, Checkpoint, load_checkpoint
from clearhead.errors import ModelError
from clearhead.interop.architecture import flat_settings
from clearhead.models.gpt import GPT
from clearhead.models.translator import Translator
from clearhead.text.tokenizer import Tokenizer

NAMES: dict[type[nn.Module], str] = {Translator: "a translator", GPT: "a GPT"}
"""What messages call the models of each family."""


def optional_package(name: str, extra: str = "export") -> ModuleType:
    """A package of an optional extra."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ModelError(
            f"{package} is not installed; install it: pip install 'clearhead[{extra}]'"
        ) from None


Supported = Mapping[str, tuple[Any, ...]]
"""The values that a library supports, by the path of a setting."""


def load_supported(folder: Path, library: str, families: Mapping[type[nn.Module], Supported]) -> Checkpoint:
    """The model in a folder, if the library supports its family and its settings."""
    checkpoint = load_checkpoint(folder)
    supported = families.get(type(checkpoint.model))
    if supported is None:
        kind = getattr(getattr(checkpoint.model, "config", None), "kind", "model of its kind")
        article = "an" if kind[0] in "aeiou" else "a"
        names = " or ".join(NAMES[family] for family in families)
        raise ModelError(f"{folder}: {article} {kind} cannot be exported to {library}, only {names}")
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
