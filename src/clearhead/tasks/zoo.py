"""Which models there are, without loading them: those in the package by name, and trained ones in folders."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from clearhead import assets
from clearhead.checkpoint import SETTINGS, WEIGHTS
from clearhead.config import read_toml
from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS
from clearhead.errors import ModelError, SettingsError
from clearhead.tasks.records import FINAL, TEST, read_metrics
from clearhead.tasks.translation.directions import Direction, saved_corpora, saved_directions

# The folder of the model inside the package, and its name with all its directions; each is a name too.
BOX = assets.path("models/en-de-fr")
WHOLE_BOX = "en-de-fr"
DEFAULT = "en-de"
# The folder of the language model inside the package, and its name.
SHAKESPEARE = "shakespeare"
SHAKESPEARE_FOLDER = assets.path("models/shakespeare")
# What stands for the languages of a model that continues texts.
TEXT = "text"
TRAIN = "clearhead train recipes/translation/quickstart.toml --out runs/quickstart"


@dataclass(frozen=True)
class ModelInfo:
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
    """Of a language model's published weights, on its validation text."""

    def record(self) -> dict[str, Any]:
        return asdict(self)


def find_models(folders: Sequence[Path]) -> list[ModelInfo]:
    """Models in these folders and right below them, each once."""
    candidates = {path.resolve(): path for folder in folders for path in (folder, *_below(folder))}
    return [model for path in candidates.values() if (model := _read(path))]


def built_in() -> list[ModelInfo]:
    """The models in the package."""
    language = _read(SHAKESPEARE_FOLDER)
    found = [_read(BOX), language and replace(language, languages=SHAKESPEARE)]
    return [model for model in found if model]


def find(name: str | Path) -> tuple[Path, Direction | None]:
    """A model's folder by its place, or by a built-in name, which may settle on one direction.

    A folder with a model in it goes before a built-in name.
    """
    folder, said = Path(name), str(name)
    if not said:
        raise ModelError("the model's name is empty; give a folder or a built-in name")
    if folder.is_dir() and (is_taken(said) or said not in _built_in()):
        return folder, None
    return find_built_in(said)


def is_taken(name: str) -> bool:
    """Whether a folder with a model in it has a name, so that naming it means that folder."""
    return (Path(name) / SETTINGS).is_file()


def find_built_in(name: str) -> tuple[Path, Direction | None]:
    """The folder of a model in the package, whatever folder here has its name, and its direction."""
    named = _built_in()
    if name in named:
        return named[name]
    if not named:
        raise ModelError(
            f"{name}: no such model folder, and this package has no model in it; train one: {TRAIN}"
        )
    offered = ", ".join(one for one in named if one != WHOLE_BOX)
    raise ModelError(f"{name}: no such model folder; built-in models are {offered}")


def default_translator(target: str | None) -> tuple[str, str]:
    """The translator in the package, whatever folder here has its name; and the language it is to write."""
    return str(BOX), target or Direction(*DEFAULT.split("-")).target


def default_language() -> str:
    """The language model in the package, whatever folder here has its name."""
    if SHAKESPEARE not in _built_in():
        raise ModelError(
            "--model: this package has no language model in it; name a trained one's folder, or train one: "
            "clearhead train --text FILE --out runs/mine"
        )
    return str(SHAKESPEARE_FOLDER)


def built_in_names() -> dict[str, str]:
    """The names of the models in the package that settle on a direction or a kind of text, and which."""
    named = _built_in()
    return {name: str(direction or TEXT) for name, (_, direction) in named.items() if name != WHOLE_BOX}


def _built_in() -> dict[str, tuple[Path, Direction | None]]:
    """The names of the models in the package."""
    named: dict[str, tuple[Path, Direction | None]] = {}
    if (BOX / SETTINGS).is_file():
        for direction in saved_directions(read_toml(BOX / SETTINGS)):
            named[str(direction)] = (BOX, direction)
        named[WHOLE_BOX] = (BOX, None)
    if (SHAKESPEARE_FOLDER / SETTINGS).is_file():
        named[SHAKESPEARE] = (SHAKESPEARE_FOLDER, None)
    return named


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _read(folder: Path) -> ModelInfo | None:
    if not (folder / SETTINGS).is_file() or not (folder / WEIGHTS).is_file():
        return None
    try:
        settings = read_toml(folder / SETTINGS)
    except SettingsError:
        return None
    measured = read_metrics(folder)
    last = {name: value for line in measured if line["kind"] == FINAL for name, value in line.items()}
    model = settings.get("model")
    language = isinstance(model, dict) and model.get("kind") == "gpt"
    directions = [TEXT] if language else [str(direction) for direction in saved_directions(settings)]
    tests = [line for line in measured if line["kind"] == TEST]
    return ModelInfo(
        str(folder),
        ", ".join(directions),
        round((folder / WEIGHTS).stat().st_size / 1e6, 1),
        round(last["bleu"], 1) if "bleu" in last else None,
        _licence(settings),
        {name: round(line[name], 1) for line in tests for name in directions if name in line},
        round(last["bits_per_byte"], 3) if "bits_per_byte" in last else None,
    )


def _licence(settings: dict[str, Any]) -> str | None:
    names = [str(name) for corpus in saved_corpora(settings) for name in corpus.get("train", ())]
    shipped = {**SHIPPED, **SHIPPED_TEXTS}
    return "; ".join(dict.fromkeys(shipped[name].licence for name in names if name in shipped)) or None
