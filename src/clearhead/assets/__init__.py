"""Models, data and recipes shipped in the package."""

from importlib.resources import files
from pathlib import Path

from clearhead.errors import SettingsError, closest_match, did_you_mean

# The wheel holds the recipes beside this package's code; a source checkout has them at its root.
RECIPES = (Path(str(files("clearhead") / "recipes")), Path(__file__).parents[3] / "recipes")


def path(name: str) -> Path:
    """The path of a shipped file or folder, such as "models/shakespeare"."""
    return Path(str(files(__name__) / name))


def recipes() -> dict[str, Path]:
    """The shipped recipes by name, such as "translation/quickstart"."""
    found = (one for folder in RECIPES for one in sorted(folder.glob("*/*.toml")))
    return {f"{one.parent.name}/{one.stem}": one for one in found}


def recipe_path(name: str | Path) -> Path:
    """The recipe at a path or, if no file is there, the shipped one of this name.

    "recipes/translation/quickstart.toml", "translation/quickstart" and "quickstart" all name the same one.
    Raises SettingsError if none or several have the name.
    """
    if Path(name).is_file():
        return Path(name)
    shipped = recipes()
    wanted = str(name).removeprefix("recipes/").removesuffix(".toml")
    if wanted in shipped:
        return shipped[wanted]
    stems = [one for one in shipped if one.endswith(f"/{wanted}")]
    if len(stems) == 1:
        return shipped[stems[0]]
    if stems:
        raise SettingsError(f"{name}: names several recipes; use one of {', '.join(stems)}")
    if Path(name).exists():
        return Path(name)  # its reader says why it is no recipe
    short = {one.partition("/")[2]: one for one in shipped}
    match = closest_match(wanted, [*shipped, *short])
    guess = did_you_mean(short.get(match, match) if match else None)
    raise SettingsError(f"{name}: no such file or recipe{guess}; clearhead recipes lists the shipped ones")
