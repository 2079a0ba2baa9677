"""Kernels run on a GPU; on a CPU, triton interprets them."""

import os
from importlib.util import find_spec

import pytest
import torch

from clearhead import accel

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # triton reads it when a kernel is defined


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> str:
    """The device on which kernels are tested here."""
    if not accel.enabled():
        pytest.skip("speed-ups are off (CLEARHEAD_ACCEL=off)")
    if find_spec("triton") is None:
        pytest.skip("needs a GPU or triton's interpreter (pip install triton)")
    if torch.cuda.is_available():
        return "cuda"
    from clearhead.accel.kernels import norm

    # Each interpreted program takes milliseconds, even if it has no rows.
    monkeypatch.setattr(norm, "PROGRAMS", 16)
    return "cpu"
