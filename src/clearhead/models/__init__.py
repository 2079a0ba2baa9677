"""Models assembled from layers, and the one list of them."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from clearhead.config import parse_settings
from clearhead.errors import SettingsError
from clearhead.models.gpt import GPT, GPTConfig
from clearhead.models.translator import Translator, TranslatorConfig

__all__ = ["GPT", "GPTConfig", "ModelConfig", "Translator", "TranslatorConfig", "build", "read_config"]

ModelConfig = TranslatorConfig | GPTConfig
"""The settings of any model, told apart by `kind`."""
KINDS: dict[str, type[ModelConfig]] = {"translator": TranslatorConfig, "gpt": GPTConfig}


def read_config(values: Mapping[str, Any], place: str = "") -> ModelConfig:
    """The settings of a model by their kind; `place` is the file they are from."""
    kind = values.get("kind", "translator")
    if kind not in KINDS:
        before = f"{place}: " if place else ""
        raise SettingsError(f"{before}model.kind: {kind!r} is not one of {', '.join(KINDS)}")
    return parse_settings(KINDS[kind], values, place, "model")


def build(config: ModelConfig, vocabulary: int) -> nn.Module:
    """A model with fresh weights."""
    match config:
        case TranslatorConfig():
            return Translator(config, vocabulary)
        case GPTConfig():
            return GPT(config, vocabulary)
