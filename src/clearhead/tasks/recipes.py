"""The one list of recipes: what a model can be trained for, told apart by `kind`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead import assets
from clearhead.config import changed, parse_settings, read_toml
from clearhead.errors import SettingsError
from clearhead.tasks.language.recipe import LanguageRecipe
from clearhead.tasks.translation.recipe import TranslationRecipe

Recipe = TranslationRecipe | LanguageRecipe
RECIPES: dict[str, type[Recipe]] = {"translation": TranslationRecipe, "language": LanguageRecipe}


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, or the shipped one of that name, after changes of the form 'a.b=value'."""
    path = assets.recipe_path(path)
    return parse_recipe(changed(read_toml(path), changes), place=str(path))


def parse_recipe(values: Mapping[str, Any], place: str = "") -> Recipe:
    """Values as the recipe of their kind; without one, they are for translation."""
    kind = values.get("kind", "translation")
    if kind in RECIPES:
        return parse_settings(RECIPES[kind], values, place=place)
    wrong = [f"{place}: " * bool(place) + f"kind: {kind!r} is not one of {', '.join(RECIPES)}"]
    try:
        # What else is wrong in it, most likely.
        parse_settings(TranslationRecipe, {name: values[name] for name in values if name != "kind"}, place)
    except SettingsError as error:
        wrong += error.problems
    raise SettingsError(*wrong)
