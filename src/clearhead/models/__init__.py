"""Models assembled from layers, and the one list of them."""

from torch import nn

from clearhead.models.translator import Translator, TranslatorConfig

ModelConfig = TranslatorConfig
"""The settings of any model; with more families, a union told apart by `kind`."""


def build(config: ModelConfig, vocabulary: int) -> nn.Module:
    """A model with fresh weights."""
    match config:
        case TranslatorConfig():
            return Translator(config, vocabulary)
