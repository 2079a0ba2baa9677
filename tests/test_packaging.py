"""The wheel holds everything that the commands need."""

import zipfile
from pathlib import Path

import pytest

from clearhead import assets
from clearhead.tasks.recipe import read_recipe

ROOT = Path(__file__).parents[1]
RECIPES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("recipes/*/*.toml"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> set[str]:
    """The names in a freshly built wheel."""
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    [path] = builder.build(directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"])
    return set(zipfile.ZipFile(path).namelist())


def test_the_wheel_holds_every_module_and_every_recipe(wheel):
    modules = {path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/clearhead/**/*.py")}
    assert modules <= wheel
    assert {f"clearhead/{recipe}" for recipe in RECIPES} <= wheel
    assert "clearhead/py.typed" in wheel


def test_the_wheel_holds_models_data_and_the_page(wheel):
    folders = ("assets/models", "assets/data", "explorer/page")
    for folder in folders:
        root = ROOT / "src" / "clearhead" / folder
        files = {path.relative_to(ROOT / "src").as_posix() for path in root.rglob("*") if path.is_file()}
        assert files
        assert files <= wheel


@pytest.mark.parametrize("recipe", RECIPES)
def test_shipped_recipes_are_found_from_any_folder(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (recipe, recipe.removeprefix("recipes/")):
        assert assets.recipe_path(name).read_bytes() == (ROOT / recipe).read_bytes()
    read_recipe(Path(recipe))


def test_a_recipe_of_the_user_comes_before_a_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = Path("recipes/translation/quickstart.toml")
    own.parent.mkdir(parents=True)
    own.touch()
    assert assets.recipe_path(own) == own
    assert assets.recipe_path("nothing.toml") == Path("nothing.toml")
