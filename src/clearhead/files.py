"""Files that are written whole or not at all, whatever ends the process."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import SettingsError

# Under such a name safetensors writes a file before it gets the name that was asked for.
SAFETENSORS = ".tmp??????"


def check_folder(path: Path) -> None:
    """Refuses a place that can become no folder, because it or what it is in is a file."""
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        where = "" if there == path else f"{there} "
        raise SettingsError(f"{path}: {where}is a file, not a folder; name a folder to write into")


def check_new_folder(path: Path) -> None:
    """Refuses a folder that already holds something."""
    check_folder(path)
    if path.exists() and any(path.iterdir()):
        raise SettingsError(f"{path}: already exists and is not empty; choose another folder")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write under; when all went well, that file is forced to the disk and takes the place."""
    temporary = temporary_name(path)
    try:
        yield temporary
        force(temporary)
        # Some libraries write for the owner alone; a model is often served by another user.
        temporary.chmod(0o644)
        temporary.replace(path)
        force(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def temporary_name(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(path.name + ".tmp")


def half_written(folder: Path) -> list[Path]:
    """What a process that was killed left in a folder of files that it was writing."""
    return [*folder.glob(temporary_name(Path("*")).name), *folder.glob(SAFETENSORS)]


def force(path: Path) -> None:
    """Returns when the file, or the folder's list of files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
