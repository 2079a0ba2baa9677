"""Smaller copies of models, for shipping and for small machines."""

import shutil
from pathlib import Path

from clearhead.accel.quantization import quantize
from clearhead.checkpoint import CARD, SETTINGS, WEIGHTS, load_checkpoint, save_weights, weights
from clearhead.errors import ModelError
from clearhead.files import check_new_folder, write_text
from clearhead.tasks.card import card_of_copy
from clearhead.tasks.records import FINAL, add_final, read_metrics


def export_int8(folder: Path, out: Path) -> tuple[int, int]:
    """Writes a copy of a model with int8 matrices and only the files needed to use it.

    Returns the bytes of these files before and after.
    """
    checkpoint = load_checkpoint(folder)
    held = weights(checkpoint.model)
    quantized = quantize(held)
    if quantized.keys() == held.keys():
        raise ModelError(f"{folder}: has no matrices to quantize; its tables are stored as they are")
    processor = [checkpoint.processor.FILE] if checkpoint.processor else []
    files = [SETTINGS, *processor, CARD, WEIGHTS]
    check_new_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    for name in (SETTINGS, *processor):
        shutil.copyfile(folder / name, out / name)
    if (folder / CARD).exists():
        write_text(out / CARD, card_of_copy((folder / CARD).read_text(encoding="utf-8"), out))
    for final in [line for line in read_metrics(folder) if line["kind"] == FINAL]:
        scores = {name: value for name, value in final.items() if name not in ("step", "kind")}
        add_final(out, final["step"], scores)
    # Last: a folder counts as a model once it has weights.
    save_weights(quantized, out / WEIGHTS)
    return _bytes(folder, files), _bytes(out, files)


def _bytes(folder: Path, files: list[str]) -> int:
    return sum((folder / name).stat().st_size for name in files if (folder / name).exists())
