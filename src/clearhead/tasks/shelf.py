"""Which trained models lie in some folders, without loading them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint import SETTINGS, WEIGHTS
from clearhead.config import read_toml
from clearhead.errors import SettingsError
from clearhead.tasks.directions import saved_directions
from clearhead.tasks.records import FINAL, read_metrics


@dataclass(frozen=True)
class Shelved:
    """A model as its folder tells of it."""

    folder: str
    languages: str
    megabytes: float
    bleu: float | None
    """Of the published weights, on its validation sentences."""

    def record(self) -> dict[str, Any]:
        return asdict(self)


def find_models(folders: Sequence[Path]) -> list[Shelved]:
    """Models in these folders and right below them, each once."""
    candidates = {path.resolve(): path for folder in folders for path in (folder, *_below(folder))}
    return [model for path in candidates.values() if (model := _read(path))]


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _read(folder: Path) -> Shelved | None:
    if not (folder / SETTINGS).is_file() or not (folder / WEIGHTS).is_file():
        return None
    try:
        settings = read_toml(folder / SETTINGS)
    except SettingsError:
        return None
    scores = [line["bleu"] for line in read_metrics(folder) if line["kind"] == FINAL and "bleu" in line]
    return Shelved(
        str(folder),
        ", ".join(map(str, saved_directions(settings))),
        round((folder / WEIGHTS).stat().st_size / 1e6, 1),
        round(scores[-1], 1) if scores else None,
    )
