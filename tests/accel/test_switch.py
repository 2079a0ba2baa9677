"""CLEARHEAD_ACCEL=off leaves plain torch; only accel uses private torch APIs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead import accel
from clearhead.accel import torch_private

PRIVATE = re.compile(
    r"torch\._|\._version\b|_cdata|\._(forward|backward)(_pre)?_hooks|_save_to_state_dict|reportPrivateImportUsage"
)
OFF = """
import torch
from clearhead import accel
from clearhead.accel import kernels
from clearhead.accel.initialization import build_for_loading
from clearhead.accel.packing import packed_copy
from clearhead.models import GPT, GPTConfig
assert not accel.enabled() and not kernels.HAS_TRITON
model = build_for_loading(lambda: GPT(GPTConfig(layers=1), 50))
assert packed_copy(model, model.readout_weight) is model
assert 0.01 < model.readout_weight.std() < 0.03
"""


def test_the_environment_turns_the_room_off():
    environment = {**os.environ, "CLEARHEAD_ACCEL": "off"}
    ended = subprocess.run(
        [sys.executable, "-c", OFF], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_no_other_room_uses_private_torch_apis():
    package = Path(clearhead.__file__).parent
    files = [path for path in package.rglob("*.py") if package / "accel" not in path.parents]
    assert len(files) > 50
    assert [str(path) for path in files if PRIVATE.search(path.read_text())] == []


def test_the_docstring_lists_every_private_api():
    folder = Path(accel.__file__).parent
    source = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "__init__.py")
    listed = (accel.__doc__ or "").replace("{mul,mul_,add_,div_,copy_}", "")
    used = {name.removesuffix("_") for name in re.findall(r"torch\._(?!_)[a-z]+", source)}
    assert used
    assert {name for name in used if name not in listed} == set()


@pytest.mark.parametrize("enabled", [True, False])
def test_functions_over_many_tensors_equal_plain_torch(monkeypatch, enabled):
    monkeypatch.setattr(accel, "_ENABLED", enabled)
    torch.manual_seed(0)
    values = [torch.randn(3, 4), torch.randn(5)]
    means, share = [torch.randn(3, 4), torch.randn(5)], torch.tensor(0.1)
    expected = [mean * (1 - share) + value * share for mean, value in zip(means, values, strict=True)]
    torch_private.lerp_all_(means, values, share)
    assert all(map(torch.equal, means, expected))
    torch_private.divide_all_(means, torch.tensor(3.0))
    assert all(torch.equal(mean, one / 3.0) for mean, one in zip(means, expected, strict=True))
    torch_private.copy_all_(means, values)
    assert all(map(torch.equal, means, values))
