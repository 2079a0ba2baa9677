"""Shared by all tests: one thread, checked shapes, and where the measuring data lies, if anywhere."""

import os
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

hook = install_import_hook(["clearhead.layers", "clearhead.models"], "beartype.beartype")

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def measuring_data() -> Path:
    """The folder of data sets that may not be shipped; tests that want it are skipped without it."""
    place = os.environ.get("CLEARHEAD_DATA") or Path(__file__).parents[2] / "shared" / "data"
    if not Path(place).is_dir():
        pytest.skip("no measuring data: name its folder in CLEARHEAD_DATA")
    return Path(place)
