"""The random generators of the process as a state that can be saved."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """Where torch (on the processor and the device in use), numpy and Python stand, as tensors and JSON."""
    _, keys, place, has_gauss, gauss = np.random.get_state()
    version, numbers, next_gauss = random.getstate()
    # Asking all devices would open each of them, in every rank.
    device = {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}
    return {
        "torch": torch.get_rng_state(),
        **device,
        "numpy": [np.asarray(keys).tolist(), int(place), int(has_gauss), float(gauss)],
        "python": [version, list(numbers), next_gauss],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """All generators go on from a saved state; that of a device is left out where there is none."""
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), *rest))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))


def begin_stream(seed: int, step: int, rank: int) -> None:
    """All generators begin anew, with numbers that this rank alone has from this step on."""
    for_torch, for_numpy, for_python = np.random.SeedSequence((seed, step, rank)).generate_state(3).tolist()
    torch.manual_seed(for_torch)
    np.random.seed(for_numpy)
    random.seed(for_python)
