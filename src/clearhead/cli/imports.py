"""clearhead import: a model of another library as one of ours."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import Json, put, say


def import_(
    folder: Annotated[Path, typer.Argument(help="A folder of Hugging Face's transformers.", metavar="X")],
    out: Annotated[Path, typer.Option(help="The new folder.", metavar="DIR")],
    json: Json = False,
) -> None:
    """Take over a language model from a Hugging Face folder: GPT-2, Llama, Mistral or Qwen3.

    The folder holds config.json, model.safetensors and the tokenizer: tokenizer.json, or vocab.json and
    merges.txt. Nothing is downloaded, and no code of the folder is run:

        clearhead import ~/models/gpt2 --out runs/gpt2

        clearhead generate --model runs/gpt2 "Once upon a time"
    """
    from clearhead.interop.huggingface import import_model

    model = import_model(folder, out)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if json:
        put({"folder": str(out), "parameters": parameters, "layers": model.config.layers})
        return
    put(str(out))
    layers, context = model.config.layers, model.config.context_length
    say(f"{parameters:,} parameters, {layers} layers, context {context}")
