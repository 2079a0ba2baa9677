"""A run killed at any moment and resumed ends like one that was never interrupted."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead.training.tensors import read_tree

SCRIPT = Path(__file__).with_name("run_to_be_killed.py")


def tensors(tree: dict, path: str = "") -> dict[str, torch.Tensor]:
    found = {}
    for name, value in tree.items():
        if isinstance(value, torch.Tensor):
            found[path + name] = value
        elif isinstance(value, dict):
            found |= tensors(value, f"{path}{name}/")
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    command = [sys.executable, SCRIPT, folder, "17"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    kills = dict(line.split() for line in ended.stdout.splitlines())
    assert all(int(number) >= 5 for number in kills.values())
    assert "left half-written by an earlier run" in ended.stderr
    return folder


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_killed_and_resumed_equals_uninterrupted_in_every_bit(runs, optimizer):
    for name in ("weights-00000036.safetensors", "state-00000036.safetensors"):
        straight = tensors(read_tree(runs / optimizer / "straight" / name))
        killed = tensors(read_tree(runs / optimizer / "killed" / name))
        assert straight.keys() == killed.keys()
        different = [path for path, value in straight.items() if not torch.equal(value, killed[path])]
        assert different == []
