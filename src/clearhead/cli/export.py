"""clearhead export: a model in another format."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Json, ModelArgument, option
from clearhead.errors import SettingsError

Export = Callable[[Path, Path, str], tuple[dict[str, Any], str]]
"""Writes the model in a folder to a path in a precision; returns what to print as JSON, and a message."""


def _int8(folder: Path, out: Path, _: str) -> tuple[dict[str, Any], str]:
    from clearhead.tasks.export import export_int8

    before, after = export_int8(folder, out)
    return {"bytes": after, "bytes_before": before}, f"{after / 1e6:.2f} MB, down from {before / 1e6:.2f} MB"


def _huggingface(folder: Path, out: Path, _: str) -> tuple[dict[str, Any], str]:
    from clearhead.interop.huggingface import export_model

    return {"model_type": export_model(folder, out)}, ""


def _word2vec(folder: Path, out: Path, _: str) -> tuple[dict[str, Any], str]:
    from clearhead.interop.word2vec import export_vectors

    words, width = export_vectors(folder, out)
    return {"words": words, "width": width}, f"{words:,} words, width {width}"


def _ctranslate2(folder: Path, out: Path, precision: str) -> tuple[dict[str, Any], str]:
    from clearhead.interop.ctranslate2 import export_ctranslate2

    export_ctranslate2(folder, out, precision)
    return {"precision": precision}, ""


def _onnx(folder: Path, out: Path, _: str) -> tuple[dict[str, Any], str]:
    from clearhead.interop.onnx import export_onnx

    export_onnx(folder, out)
    return {}, ""


@dataclass(frozen=True)
class Format:
    """What writes a format, and the precisions to choose from; the first is the default."""

    export: Export
    precisions: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {
    "int8": Format(_int8),
    "huggingface": Format(_huggingface),
    "ctranslate2": Format(_ctranslate2, ("fp32", "fp16", "bf16", "int16", "int8")),
    "onnx": Format(_onnx),
    "word2vec": Format(_word2vec),
}


def _alternatives(names: Iterable[str]) -> str:
    """A list such as 'a, b or c'."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def export(
    model: ModelArgument,
    to: Annotated[str, option(f"{_alternatives(FORMATS)}.", "FORMAT")],
    out: Annotated[Path, option("New folder, or file for word2vec.", "PATH")],
    precision: Annotated[
        str | None, option(f"For ctranslate2: {_alternatives(FORMATS['ctranslate2'].precisions)}.", "NAME")
    ] = None,
    json: Json = False,
) -> None:
    """Export a model to another format.

    int8 quantizes each row of a matrix to 8 bits. The folder has about a quarter of the size, works with
    every command, and gives nearly the same output. Held-out test data is not copied.

    huggingface writes a folder for the transformers library. It supports models with the architecture of
    GPT-2, Llama, Mistral, Qwen3, BERT, RoBERTa, DistilBERT or ViT, and translators: post-norm ones as Marian,
    pre-norm ones as Pegasus.

    ctranslate2 writes a translator, or a GPT such as GPT-2 or Llama, for the CTranslate2 library, which is
    fast on CPUs and GPUs. onnx writes a translator as two graphs, for the encoder and for a step of the
    decoder. Both formats need the extra export: pip install 'clearhead[export]'.

    word2vec writes word vectors as a binary file (.bin) or as text (.txt, .vec).

    \b
    Examples:
      clearhead export runs/mine --to int8 --out runs/mine-int8
      clearhead evaluate runs/mine --against runs/mine-int8
      clearhead export runs/writer --to huggingface --out writer-hf
      clearhead export en-de-fr --to huggingface --out translator-hf
      clearhead export en-de-fr --to ctranslate2 --precision int8 --out ct2
      clearhead export en-de-fr --to onnx --out translator-onnx
      clearhead export runs/vectors --to word2vec --out vectors.bin
    """
    if to not in FORMATS:
        raise SettingsError(f"--to {to}: is not one of {', '.join(FORMATS)}")
    precisions = FORMATS[to].precisions
    if precision is not None and precision not in precisions:
        expected = (
            f"is not one of {', '.join(precisions)}" if precisions else f"--to {to} has none; leave it out"
        )
        raise SettingsError(f"--precision {precision}: {expected}")
    from clearhead.tasks.zoo import find

    folder, _ = find(model)
    record, message = FORMATS[to].export(folder, out, precision or next(iter(precisions), ""))
    print_result({"folder" if out.is_dir() else "file": str(out), **record} if json else str(out))
    if message:
        print_status(message)
