"""clearhead export: a model in another format."""

from pathlib import Path
from typing import Annotated

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Json, ModelArgument, option
from clearhead.errors import SettingsError

FORMATS = ("int8", "huggingface")


def export(
    model: ModelArgument,
    to: Annotated[str, option(f"{' or '.join(FORMATS)}.", "FORMAT")],
    out: Annotated[Path, option("New folder for the exported model.", "DIR")],
    json: Json = False,
) -> None:
    """Export a model to another format.

    int8 quantizes each row of a matrix to 8 bits. The folder has about a quarter of the size, works with
    every command, and gives nearly the same output. Held-out test data is not copied.

    huggingface writes a folder for the transformers library. It supports language models with the
    architecture of GPT-2, Llama, Mistral or Qwen3.

    \b
    Examples:
      clearhead export runs/mine --to int8 --out runs/mine-int8
      clearhead evaluate runs/mine --against runs/mine-int8
      clearhead export runs/writer --to huggingface --out writer-hf
    """
    if to not in FORMATS:
        raise SettingsError(f"--to {to}: is not one of {', '.join(FORMATS)}")
    from clearhead.tasks.zoo import find

    folder, _ = find(model)
    if to == "huggingface":
        from clearhead.interop.huggingface import export_model

        model_type = export_model(folder, out)
        print_result({"folder": str(out), "model_type": model_type} if json else str(out))
        return
    from clearhead.tasks.export import export_int8

    before, after = export_int8(folder, out)
    print_result({"folder": str(out), "bytes": after, "bytes_before": before} if json else str(out))
    print_status(f"{after / 1e6:.2f} MB, down from {before / 1e6:.2f} MB")
