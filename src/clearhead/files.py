"""Atomic file writes: after a crash, a file is either complete or absent."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import SettingsError

# safetensors writes to a temporary file of this name before it renames it.
SAFETENSORS_TEMPORARY = ".tmp??????"


def check_folder(path: Path) -> None:
    """Raise SettingsError if the path cannot be a folder, because it or one of its parents is a file."""
    existing = next(part for part in (path, *path.parents) if part.exists())
    if not existing.is_dir():
        file = "" if existing == path else f"{existing} "
        raise SettingsError(f"{path}: {file}is a file, not a folder; choose a folder to write to")


def check_new_folder(path: Path) -> None:
    """Raise SettingsError unless the folder is new or empty."""
    check_folder(path)
    if path.exists() and any(path.iterdir()):
        raise SettingsError(f"{path}: already exists and is not empty; choose another folder")


def check_output(path: Path) -> None:
    """Raise SettingsError if a file cannot be written here; the message names the option --out."""
    if path.is_dir():
        raise SettingsError(f"--out {path}: is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise SettingsError(f"--out {path}: is not a regular file; choose another")
    if not path.parent.is_dir():
        raise SettingsError(f"--out {path}: there is no folder {path.parent}; create it first")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path to write to; on success it is synced to disk and renamed to `path`."""
    temporary = temporary_path(path)
    try:
        yield temporary
        fsync(temporary)
        # Some libraries write files readable by their owner only; models are often served by another user.
        temporary.chmod(0o644)
        temporary.replace(path)
        fsync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def temporary_path(path: Path) -> Path:
    """The path a file has until it is complete."""
    return path.with_name(path.name + ".tmp")


def leftover_files(folder: Path) -> list[Path]:
    """Incomplete files that a killed process left in a folder."""
    return [*folder.glob(temporary_path(Path("*")).name), *folder.glob(SAFETENSORS_TEMPORARY)]


def fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
