"""Exports translators to ONNX: one graph for the encoder, one for a step of the decoder."""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from clearhead.checkpoint import ORIGIN
from clearhead.files import check_new_folder
from clearhead.interop.architecture import write_files
from clearhead.interop.exporting import load_supported, optional_package
from clearhead.interop.translators import write_processor
from clearhead.layers.attention import Attention, KeyValues
from clearhead.layers.block import Source
from clearhead.layers.layout import Padded
from clearhead.layers.mask import Causal, LengthMask
from clearhead.models.static_step import StaticState
from clearhead.models.translator import Translator

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
KV_NAMES = ("keys", "values")
SOURCE_NAMES = ("source_keys", "source_values")
BATCH, TOKENS, SOURCE = Dim("batch"), Dim("tokens"), Dim("source")
AXES = {
    "source": {0: BATCH, 1: SOURCE},
    "tokens": {0: BATCH},
    "lengths": {0: BATCH},
    **{name: {1: BATCH, 3: TOKENS} for name in KV_NAMES},
    **{name: {1: BATCH, 3: SOURCE} for name in SOURCE_NAMES},
}
"""The dynamic axes of each input."""


class EncoderGraph(nn.Module):
    """From a source to the keys and values of all cross-attentions: (layers, batch, heads, source, size)."""

    def __init__(self, model: Translator):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        layout = Padded(lengths)
        encoded = self.model.encode(source, layout)
        blocks = self.model.decoder.project_source(encoded, layout.cross_mask).blocks
        return torch.stack([kv.keys for kv in blocks]), torch.stack([kv.values for kv in blocks])


class DecoderGraph(nn.Module):
    """From the last token of each row to the logits of the next, and all keys and values so far.

    Keys and values of all self-attentions are (layers, batch, heads, tokens, size); at first there are none.
    """

    def __init__(self, model: Translator):
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Tensor,
        keys: Tensor,
        values: Tensor,
        source_keys: Tensor,
        source_values: Tensor,
        lengths: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.full((1,), keys.shape[3], device=tokens.device)
        caches = [_AppendingCache(*past) for past in zip(keys, values, strict=True)]
        projected = [KeyValues(*given) for given in zip(source_keys, source_values, strict=True)]
        source = Source(projected, LengthMask(lengths))
        state: Any = StaticState(caches, Causal(), positions, source)
        logits = self.model.step(tokens, state)
        extended = [torch.stack([getattr(cache, name) for cache in caches]) for name in KV_NAMES]
        return logits, extended[0], extended[1]


class _AppendingCache:
    """The cache of one block, without spare capacity."""

    def __init__(self, keys: Tensor, values: Tensor):
        self.keys, self.values = keys, values

    def extend(self, new: KeyValues) -> KeyValues:
        self.keys = torch.cat((self.keys, new.keys), 2)
        self.values = torch.cat((self.values, new.values), 2)
        return KeyValues(self.keys, self.values)


def export_onnx(folder: Path, out: Path) -> None:
    """Writes a translator as encoder.onnx and decoder.onnx, with its tokenizer in Hugging Face's format."""
    check_new_folder(out)
    for package in ("onnx", "onnxscript"):
        optional_package(package)
    checkpoint = load_supported(folder, "ONNX", {Translator: {}})
    model: Any = checkpoint.model
    for attention in model.modules():
        if isinstance(attention, Attention):
            # A tap selects the explicit steps, which every runtime supports.
            attention.tap = _unchanged
    config, positions = model.config, 5
    heads = config.attention.kv_heads or config.attention.heads

    def kv(names: Sequence[str], count: int) -> dict[str, Tensor]:
        # Each input gets a tensor of its own, because the exporter merges inputs that are the same tensor.
        shape = (config.decoder_layers, 2, heads, count, config.head_size)
        return {name: torch.zeros(shape) for name in names}

    lengths = torch.tensor([positions, positions - 1])
    source = {"source": torch.ones(2, positions, dtype=torch.long), "lengths": lengths}
    step = {"tokens": torch.ones(2, dtype=torch.long), **kv(KV_NAMES, 3), **kv(SOURCE_NAMES, positions)}
    settings, files = write_processor(checkpoint.processor, config)
    about = {"layers": config.decoder_layers, "heads": heads, "head_size": config.head_size}
    about[ORIGIN] = folder.resolve().name
    write_files(out, {**files, "config.json": settings | about}, folder)
    _export(EncoderGraph(model), source, SOURCE_NAMES, out / ENCODER)
    new = (f"new_{name}" for name in KV_NAMES)
    _export(DecoderGraph(model), {**step, "lengths": lengths}, ("logits", *new), out / DECODER)


def _export(
    graph: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    path: Path,
) -> None:
    with warnings.catch_warnings(), _errors_only(logging.getLogger("torch.onnx")):
        # The exporter warns about torch's own code.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(),
            kwargs=dict(inputs),
            f=path,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes={name: AXES[name] for name in inputs},
            dynamo=True,
            external_data=False,
            verbose=False,
        )


@contextmanager
def _errors_only(logger: logging.Logger) -> Iterator[None]:
    """Inside, a logger reports nothing but errors."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _unchanged(name: str, value: Tensor) -> Tensor:
    return value
