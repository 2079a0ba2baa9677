"""Kernels run on a GPU; on a processor triton can interpret them, number by number."""

import os
from importlib.util import find_spec

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read by triton when a kernel is defined


@pytest.fixture
def device() -> str:
    """Where kernels are tried here."""
    if find_spec("triton") is None:
        pytest.skip("neither a GPU nor triton, which could interpret its kernels (pip install triton)")
    return "cuda" if torch.cuda.is_available() else "cpu"
