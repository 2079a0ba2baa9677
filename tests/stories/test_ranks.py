"""Several processes train one model as one process would, and survive each other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.config import read_settings
from clearhead.tasks.recipe import TranslationRecipe
from clearhead.tasks.run import train

SCRIPT = Path(__file__).with_name("run_in_ranks.py")
SHORT = ["training.steps=16", "training.report_every=1", "training.validate_every=8"]
PACKED = ['batches.kind="packed"', "batches.places=24"]
KINDS = ("copy", "shard")
LAYOUTS = {"padded": [], "packed": PACKED}


def in_ranks(count: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", count, SCRIPT, *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, check=False
    )


def curve(out: Path) -> list[dict[str, float]]:
    """Everything that was measured at each step but times."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    timed = ("seconds", "tokens_per_second", "kind")
    return [{name: value for name, value in line.items() if name not in timed} for line in lines]


def assert_same_curve(first: Path, second: Path) -> None:
    for one, other in zip(curve(first), curve(second), strict=True):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, number_recipe) -> Path:
    """Holds a recipe, and runs of it: by one process, and by two together."""
    folder = tmp_path_factory.mktemp("ranks")
    recipe = number_recipe(folder)
    together: list[object] = []
    for layout, changes in LAYOUTS.items():
        settings = [*SHORT, *changes]
        alone = read_settings(TranslationRecipe, recipe, [*settings, "training.accumulate=2"])
        for _ in train(alone, folder / f"{layout} alone"):
            pass
        for kind in KINDS:
            together += ["train", f"{layout} {kind}", *settings, f'training.parallel="{kind}"', "--"]
    ended = in_ranks(2, recipe, folder, *together)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_give_the_curve_of_one(folder, layout, kind):
    assert len(curve(folder / f"{layout} alone")) == 16 + 2 + 1
    assert_same_curve(folder / f"{layout} alone", folder / f"{layout} {kind}")
