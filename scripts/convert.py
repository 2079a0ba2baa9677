"""Converts a model folder or a run of the first edition, in place or with --out into a new folder.

    python scripts/convert.py runs/mine
    python scripts/convert.py runs/mine --out runs/converted

Settings get their current names, in config.toml and in the saved training states, so that a run can be
resumed. Weights stay bit-identical; no other file changes.
"""

import argparse
import shutil
import sys
import typing
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from clearhead.checkpoint import SETTINGS
from clearhead.config import Settings, read_toml
from clearhead.errors import ClearheadError
from clearhead.files import check_new_folder, write_text
from clearhead.retired import current_name, current_value, is_first_edition
from clearhead.tasks.language.recipe import LanguageRecipe
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.training.tensors import read_tree, write_tree

STATE_KEYS = {"stretch": "window", "standing": "early_stopping", "files": "data"}
"""Parts of a training state and their current names."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a model folder or a run of the first edition")
    parser.add_argument("--out", type=Path, help="write a converted copy here; default: convert in place")
    options = parser.parse_args()
    try:
        report = convert(options.folder, options.out)
    except ClearheadError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    sys.stdout.write(f"{report}\n")


def convert(folder: Path, out: Path | None = None) -> str:
    """Convert a folder; return what was done, in one line."""
    settings = read_toml(folder / SETTINGS)
    if not is_first_edition(settings):
        return f"{folder}: already up to date; nothing to convert"
    known = set(_paths(LanguageRecipe if settings["model"].get("kind") == "gpt" else TranslationRecipe))
    current = converted(settings, known)
    if out:
        check_new_folder(out)
        shutil.copytree(folder, out, dirs_exist_ok=True)
        folder = out
    states = [_convert_state(path, known) for path in sorted(folder.glob("training/state-*"))]
    # Settings last: until they are written, the folder counts as unconverted, and the script can run again.
    write_text(folder / SETTINGS, tomli_w.dumps(current))
    return f"{folder}: converted" + ("" if all(states) else "; its sharded training states cannot be resumed")


def _paths(annotation: Any, group: str = "") -> Iterator[str]:
    """The paths of all settings below a class."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        for name, field in annotation.model_fields.items():
            yield group + name
            yield from _paths(field.annotation, f"{group}{name}.")
    for inner in typing.get_args(annotation):
        yield from _paths(inner, group)


def _convert_state(path: Path, known: Collection[str]) -> bool:
    """Rename the settings that a training state stores; False for the sharded states of several GPUs."""
    if path.is_dir():
        return False
    state = read_tree(path)
    state |= {new: state[old] for old, new in STATE_KEYS.items() if old in state}
    write_tree(path, state | {"settings": converted(state["settings"], known)})
    return True


def converted(settings: Mapping[str, Any], known: Collection[str], group: str = "") -> dict[str, Any]:
    """Settings under their current names, in the same order; `known` are the paths of all settings."""
    result = {}
    for name, value in settings.items():
        path = group + name
        current = (current_name(path, known) or path).removeprefix(group)
        inner = isinstance(value, Mapping)
        result[current] = converted(value, known, f"{path}.") if inner else current_value(path, value)
    return result


if __name__ == "__main__":
    main()
