"""Models and data shipped in the package."""

from importlib.resources import files
from pathlib import Path


def path(name: str) -> Path:
    """The path of a shipped file or folder, such as "models/shakespeare"."""
    return Path(str(files(__name__) / name))
