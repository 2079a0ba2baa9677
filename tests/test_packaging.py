"""The wheel holds everything that the commands need."""

import zipfile
from pathlib import Path

import pytest

from clearhead import assets
from clearhead.errors import SettingsError
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
    short = recipe.removeprefix("recipes/")
    for name in (recipe, short, short.removesuffix(".toml")):
        assert assets.recipe_path(name).read_bytes() == (ROOT / recipe).read_bytes()
    read_recipe(Path(recipe))


def test_a_recipe_of_the_user_comes_before_a_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = Path("recipes/translation/quickstart.toml")
    own.parent.mkdir(parents=True)
    own.touch()
    assert assets.recipe_path(own) == own


def test_a_folder_does_not_hide_a_shipped_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("quickstart").mkdir()
    assert assets.recipe_path("quickstart").is_file()
    Path("other").mkdir()
    with pytest.raises(SettingsError, match=r"^other: is a folder; pass a .toml file"):
        read_recipe(Path("other"))


def test_the_last_part_of_a_name_is_enough_if_no_other_recipe_has_it():
    assert assets.recipe_path("quickstart") == assets.recipe_path("translation/quickstart")
    assert assets.recipe_path("quickstart.toml") == assets.recipe_path("translation/quickstart")
    with pytest.raises(
        SettingsError, match=r"^imdb: names several recipes; use one of classification/imdb, mas"
    ):
        assets.recipe_path("imdb")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("quikstart", "translation/quickstart"),
        ("quickstart.tml", "translation/quickstart"),
        ("classification/imbd", "classification/imdb"),
        ("recipes/ngrams/ptb_5gram.toml", "ngrams/ptb-5gram"),
    ],
)
def test_a_misspelt_recipe_suggests_the_nearest_one(name, meant):
    with pytest.raises(
        SettingsError, match=f"no such file or recipe \\(did you mean {meant}\\?\\); clearhead rec"
    ):
        assets.recipe_path(name)


def test_every_recipe_begins_with_one_sentence_that_says_what_it_trains():
    heads = {
        name: path.read_text(encoding="utf-8").partition("\n")[0] for name, path in assets.recipes().items()
    }
    assert len(heads) == len(RECIPES)
    assert [name for name, head in heads.items() if not (head.startswith("# ") and head.endswith("."))] == []
