"""clearhead import: a model of another library as one of ours."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Json, option


def import_(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a Hugging Face transformers model.", metavar="FOLDER")
    ],
    out: Annotated[Path, option("New folder for the imported model.", "DIR")],
    json: Json = False,
) -> None:
    """Import a Hugging Face language model.

    Supports GPT-2, Llama, Mistral and Qwen3. The folder must hold config.json, model.safetensors and the
    tokenizer: tokenizer.json, or vocab.json and merges.txt. Nothing is downloaded, and no code from the
    folder is run.

    \b
    Examples:
      clearhead import ~/models/gpt2 --out runs/gpt2
      clearhead generate --model runs/gpt2 "Once upon a time"
    """
    from clearhead.interop.huggingface import import_model

    model = import_model(folder, out)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    layers, context = model.config.layers, model.config.context_length
    record = {"folder": str(out), "parameters": parameters, "layers": layers}
    print_result(record if json else str(out))
    print_status(f"{parameters:,} parameters, {layers} layers, context {context}")
