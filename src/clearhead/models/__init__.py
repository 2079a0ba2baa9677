"""Models assembled from layers, and the table of all families."""

from collections.abc import Mapping
from typing import Any

from clearhead.config import parse_settings
from clearhead.errors import SettingsError
from clearhead.models.bag import Bag, BagConfig
from clearhead.models.bilstm import BiLSTM, BiLSTMConfig
from clearhead.models.captioner import Captioner, CaptionerConfig
from clearhead.models.encoder import Encoder, EncoderConfig
from clearhead.models.encoder_decoder import EncoderDecoder
from clearhead.models.gpt import GPT, GPTConfig
from clearhead.models.ngram import Ngram, NgramConfig
from clearhead.models.seq2seq import Seq2Seq, Seq2SeqConfig
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.models.vit import ViT, ViTConfig
from clearhead.models.word_vectors import WordVectors

__all__ = [
    "GPT",
    "MODELS",
    "Bag",
    "BagConfig",
    "BiLSTM",
    "BiLSTMConfig",
    "Captioner",
    "CaptionerConfig",
    "Encoder",
    "EncoderConfig",
    "EncoderDecoder",
    "GPTConfig",
    "Ngram",
    "NgramConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "Translator",
    "TranslatorConfig",
    "ViT",
    "ViTConfig",
    "build",
    "read_config",
]

MODELS: dict[str, Any] = {
    "translator": Translator,
    "gpt": GPT,
    "seq2seq": Seq2Seq,
    "ngram": Ngram,
    "word_vectors": WordVectors,
    "encoder": Encoder,
    "bilstm": BiLSTM,
    "bag": Bag,
    "vit": ViT,
    "captioner": Captioner,
}
"""Every model family by its `kind`; register your own class here (`models/model.py` has the protocol)."""


def read_config(values: Mapping[str, Any], location: str = "") -> Any:
    """The settings of a model by their `kind`; `location` is the file they are from."""
    kind = values.get("kind", "translator")
    if kind not in MODELS:
        before = f"{location}: " if location else ""
        raise SettingsError(f"{before}model.kind: {kind!r} is not one of {', '.join(MODELS)}")
    return parse_settings(MODELS[kind].Config, values, location, "model")


def build(config: Any, processor: Any) -> Any:
    """A model of the settings' kind with new weights, for the processor that makes its input."""
    return MODELS[config.kind].build(config, processor)
