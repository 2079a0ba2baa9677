"""The recipes of bags of words reach the published figures on public data."""

from pathlib import Path

import pytest

import clearhead
from clearhead.data.download import get_dataset
from clearhead.tasks.recipe import read_recipe
from clearhead.tasks.run import train

from ..conftest import finish

pytest.importorskip("sklearn")
RECIPES = Path(__file__).parents[3] / "recipes" / "classification"


@pytest.mark.parametrize(
    ("data", "recipe", "accuracy"),
    [
        ("sst2", "sst2-nbsvm", 0.815),
        ("trec", "trec-tfidf", 0.91),
        pytest.param("imdb", "imdb-nbsvm", 0.914, marks=pytest.mark.slow),
    ],
)
def test_a_bag_of_words_reaches_its_figure(
    data: str, recipe: str, accuracy: float, measuring_data: Path, monkeypatch, tmp_path: Path
):
    monkeypatch.setenv("CLEARHEAD_DATA", str(measuring_data))
    monkeypatch.chdir(tmp_path)
    get_dataset(data, Path("data") / data)
    finish(train(read_recipe(RECIPES / f"{recipe}.toml"), tmp_path / "run"))
    assert clearhead.load(tmp_path / "run").evaluate(tmp_path / "run").record["accuracy"] >= accuracy
