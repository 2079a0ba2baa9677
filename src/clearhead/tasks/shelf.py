"""Which models there are, without loading them: those in the package by name, and trained ones in folders."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clearhead.checkpoint import SETTINGS, WEIGHTS
from clearhead.config import read_toml
from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS
from clearhead.errors import ModelError, SettingsError
from clearhead.tasks.directions import Direction, saved_corpora, saved_directions
from clearhead.tasks.records import FINAL, TEST, read_metrics

# The folder of the model inside the package, and its name with all its directions; each is a name too.
BOX = Path(__file__).parent / "box"
WHOLE_BOX = "box"
DEFAULT = "en-de"
# The folder of the language model inside the package, and its name.
SHAKESPEARE = "shakespeare"
SHAKESPEARE_FOLDER = Path(__file__).parent / "shakespeare"
TRAIN = "clearhead train recipes/quickstart.toml --out runs/quickstart"


@dataclass(frozen=True)
class Shelved:
    """A model as its folder tells of it."""

    folder: str
    languages: str
    megabytes: float
    bleu: float | None
    """Of the published weights, on its validation sentences."""
    licence: str | None
    """Of the shipped data that it was trained on."""
    tested: dict[str, float] = field(default_factory=dict)
    """BLEU of each direction on its test sentences, where its folder tells of it."""
    bits_per_byte: float | None = None
    """Of a language model, on the text that was kept from its training."""

    def record(self) -> dict[str, Any]:
        return asdict(self)


def find_models(folders: Sequence[Path]) -> list[Shelved]:
    """Models in these folders and right below them, each once."""
    candidates = {path.resolve(): path for folder in folders for path in (folder, *_below(folder))}
    return [model for path in candidates.values() if (model := _read(path))]


def box() -> Shelved | None:
    """The model in the package, if there is one."""
    return _read(BOX)


def find(name: str | Path) -> tuple[Path, Direction | None]:
    """A model's folder by its place, or by a built-in name, which may settle on one direction.

    A folder with a model in it goes before a built-in name.
    """
    folder, said = Path(name), str(name)
    if not said:
        raise ModelError("the model's name is empty; give a folder or a built-in name")
    if (
        said == SHAKESPEARE
        and (SHAKESPEARE_FOLDER / SETTINGS).is_file()
        and not (folder / SETTINGS).is_file()
    ):
        return SHAKESPEARE_FOLDER, None
    if (folder / SETTINGS).is_file() or not (BOX / SETTINGS).is_file():
        if folder.is_dir():
            return folder, None
        raise ModelError(
            f"{name}: no such model folder, and this package has no model in it; train one: {TRAIN}"
        )
    named = {str(direction): direction for direction in saved_directions(read_toml(BOX / SETTINGS))}
    if said == WHOLE_BOX or said in named:
        return BOX, named.get(said)
    if folder.is_dir():
        return folder, None
    raise ModelError(f"{name}: no such model folder; built-in models are {', '.join(named)}")


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _read(folder: Path) -> Shelved | None:
    if not (folder / SETTINGS).is_file() or not (folder / WEIGHTS).is_file():
        return None
    try:
        settings = read_toml(folder / SETTINGS)
    except SettingsError:
        return None
    measured = read_metrics(folder)
    final = next((line for line in reversed(measured) if line["kind"] == FINAL), {})
    model = settings.get("model")
    language = isinstance(model, dict) and model.get("kind") == "gpt"
    directions = ["text"] if language else [str(direction) for direction in saved_directions(settings)]
    tests = [line for line in measured if line["kind"] == TEST]
    return Shelved(
        str(folder),
        ", ".join(directions),
        round((folder / WEIGHTS).stat().st_size / 1e6, 1),
        round(final["bleu"], 1) if "bleu" in final else None,
        _licence(settings),
        {name: round(line[name], 1) for line in tests for name in directions if name in line},
        round(final["bits_per_byte"], 3) if "bits_per_byte" in final else None,
    )


def _licence(settings: dict[str, Any]) -> str | None:
    names = [str(name) for corpus in saved_corpora(settings) for name in corpus.get("train", ())]
    shipped = {**SHIPPED, **SHIPPED_TEXTS}
    return "; ".join(dict.fromkeys(shipped[name].licence for name in names if name in shipped)) or None
