"""clearhead import: a model of another library as one of ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Json, option
from clearhead.wording import counted

Import = Callable[[Path, Path], tuple[dict[str, Any], str]]
"""Writes a model of another library to a folder; returns what to print as JSON, and a message."""


def _huggingface(path: Path, out: Path) -> tuple[dict[str, Any], str]:
    from clearhead.interop.huggingface import import_model

    model = import_model(path, out)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    layers = sum(stack.layers for stack in model.anatomy().stacks)
    positions = model.config.max_positions
    message = f"{parameters:,} parameters, {counted(layers, 'layer')}, {positions} positions"
    return {"parameters": parameters, "layers": layers}, message


def _word2vec(path: Path, out: Path) -> tuple[dict[str, Any], str]:
    from clearhead.interop.word2vec import import_vectors

    words, width = import_vectors(path, out).embedding.weight.shape
    return {"words": words, "width": width}, f"{words:,} words, width {width}"


FILES: dict[str, Import] = {".bin": _word2vec, ".txt": _word2vec, ".vec": _word2vec}
"""The importer of a file, by its suffix; a folder is one of Hugging Face."""


def import_(
    path: Annotated[Path, typer.Argument(help="Folder of a model, or a word2vec file.", metavar="PATH")],
    out: Annotated[Path, option("New folder for the imported model.", "DIR")],
    json: Json = False,
) -> None:
    """Import a model of Hugging Face or timm, or word vectors.

    Translators: Marian, such as opus-mt. Language models: GPT-2, Llama, Mistral, Qwen3. Encoders: BERT,
    RoBERTa and DistilBERT for masked tokens and classification, BERT and DistilBERT for question answering.
    Images: ViT of Hugging Face and timm. The folder must hold config.json, model.safetensors and, for text,
    the tokenizer: tokenizer.json, or vocab.json and merges.txt, or vocab.txt; for Marian, source.spm,
    target.spm and vocab.json. Nothing is downloaded, and no code from the folder is run.

    Word vectors are read from the files of word2vec: .bin (binary), .txt or .vec (text), also .gz, .xz, .zst.

    \b
    Examples:
      clearhead import ~/models/gpt2 --out runs/gpt2
      clearhead generate --model runs/gpt2 "Once upon a time"
      clearhead import ~/models/opus-mt-en-de --out runs/opus
      clearhead translate "The dog runs." --model runs/opus
      clearhead import ~/models/bert-base-uncased --out runs/bert
      clearhead fill --model runs/bert "The [MASK] drinks milk."
      clearhead import GoogleNews-vectors-negative300.bin.gz --out runs/google
      clearhead neighbours king woman --minus man --model runs/google
    """
    from clearhead.data.sources.streams import suffix

    importer = _huggingface if path.is_dir() else FILES.get(suffix(path), _huggingface)
    record, message = importer(path, out)
    print_result({"folder": str(out), **record} if json else str(out))
    print_status(message)
