"""Models, data and recipes shipped in the package."""

from importlib.resources import files
from pathlib import Path

# The wheel holds the recipes beside this package's code; a source checkout has them at its root.
RECIPES = (Path(str(files("clearhead") / "recipes")), Path(__file__).parents[3] / "recipes")


def path(name: str) -> Path:
    """The path of a shipped file or folder, such as "models/shakespeare"."""
    return Path(str(files(__name__) / name))


def recipe_path(name: str | Path) -> Path:
    """The recipe at a path or, if no file is there, the shipped one, such as "translation/quickstart.toml".

    The name may begin with "recipes/". A name that nothing has is returned as it is.
    """
    shipped = str(name).removeprefix("recipes/")
    found = (folder / shipped for folder in RECIPES if (folder / shipped).is_file())
    return Path(name) if Path(name).exists() else next(found, Path(name))
