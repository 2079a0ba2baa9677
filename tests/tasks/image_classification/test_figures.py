"""The recipes of CIFAR-10 fit the data that `clearhead data get` writes, and learn."""

from pathlib import Path

import pytest

import clearhead
from clearhead.data.download import get_dataset
from clearhead.data.image_processor import ImageProcessor
from clearhead.models import build
from clearhead.tasks.image_classification.data import ImageData
from clearhead.tasks.recipe import read_recipe
from clearhead.tasks.run import train

from ..conftest import finish

RECIPES = Path(__file__).parents[3] / "recipes" / "classification"
MAX_PARAMETERS = 4_000_000


@pytest.mark.parametrize("name", ["cifar10", "cifar10-fast", "cifar10-cpu"])
def test_a_recipe_has_at_most_four_million_parameters(name: str):
    recipe = read_recipe(RECIPES / f"{name}.toml")
    model = build(recipe.model, ImageProcessor(32, labels=recipe.data.labels))
    assert sum(parameter.numel() for parameter in model.parameters()) <= MAX_PARAMETERS


@pytest.mark.slow
def test_the_recipe_for_cpus_learns_within_a_third_of_an_epoch(
    measuring_data: Path, monkeypatch, tmp_path: Path
):
    monkeypatch.setenv("CLEARHEAD_DATA", str(measuring_data))
    monkeypatch.chdir(tmp_path)
    get_dataset("cifar10", Path("data/cifar10"))
    changes = ["training.steps=120", "training.schedule.warmup=20", "training.validate_every=120"]
    recipe = read_recipe(RECIPES / "cifar10-cpu.toml", changes)
    data = ImageData.read(recipe.data, 32, recipe.training.seed)
    assert (len(data.train), len(data.validation), data.problems) == (49_000, 1_000, ())
    assert data.labels == tuple(sorted(recipe.data.labels))
    finish(train(recipe, tmp_path / "run"))
    assert clearhead.load(tmp_path / "run").evaluate(tmp_path / "run").record["accuracy"] > 0.36
