"""Models in other forms: smaller folders, for shipping and for small machines."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from clearhead.accel.quantization import quantize
from clearhead.checkpoint import CARD, SETTINGS, TOKENIZER, WEIGHTS, load_checkpoint, save_weights, weights
from clearhead.files import check_new_folder
from clearhead.tasks.records import FINAL, add_final, read_metrics


@dataclass(frozen=True)
class Exported:
    """How large the files that a model needs were, and are now."""

    before: int
    after: int


def export_int8(folder: Path, out: Path) -> Exported:
    """Writes a model's folder with matrices of int8, and only the files that are needed to use it."""
    model = load_checkpoint(folder).model
    check_new_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    for name in (SETTINGS, TOKENIZER, CARD):
        if (folder / name).exists():
            shutil.copyfile(folder / name, out / name)
    for final in [line for line in read_metrics(folder) if line["kind"] == FINAL]:
        scores = {name: value for name, value in final.items() if name not in ("step", "kind")}
        add_final(out, final["step"], scores)
    # Last: a folder is taken for a model once it has weights.
    save_weights(quantize(weights(model)), out / WEIGHTS)
    return Exported(folder_bytes(folder), folder_bytes(out))


def folder_bytes(folder: Path) -> int:
    """What a model needs on disk."""
    names = (SETTINGS, TOKENIZER, CARD, WEIGHTS)
    return sum((folder / name).stat().st_size for name in names if (folder / name).exists())
