"""clearhead recipes: the recipes in the package."""

from pathlib import Path
from typing import Annotated

from clearhead.cli.console import print_result
from clearhead.cli.options import Json, argument


def recipes(
    name: Annotated[str | None, argument("Recipe to print; default: list all of them.", "RECIPE")] = None,
    json: Json = False,
) -> None:
    """List the shipped recipes, or print one.

    clearhead train accepts these names, and also the last part of a name if it is unique. To edit a recipe,
    print it to a file.

    \b
    Examples:
      clearhead recipes
      clearhead recipes quickstart > mine.toml
    """
    from clearhead import assets

    if name:
        content = assets.recipe_path(name).read_text(encoding="utf-8")
        print_result({"name": name, "content": content} if json else content.removesuffix("\n"))
        return
    shipped = {one: describe(path) for one, path in assets.recipes().items()}
    width = max(map(len, shipped))
    for one, description in shipped.items():
        print_result({"name": one, "description": description} if json else f"{one:<{width}}  {description}")


def describe(path: Path) -> str:
    """What a recipe trains, from the comment in its first line."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
