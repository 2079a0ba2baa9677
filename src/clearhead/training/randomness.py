"""The random generators of the process, as a state that can be saved."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """The state of torch (CPU and current device), numpy and Python, as tensors and JSON."""
    _, keys, position, has_gauss, gauss = np.random.get_state()
    version, numbers, next_gauss = random.getstate()
    # Reading the states of all devices would open each of them, in every rank.
    device = {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}
    return {
        "torch": torch.get_rng_state(),
        **device,
        "numpy": [np.asarray(keys).tolist(), int(position), int(has_gauss), float(gauss)],
        "python": [version, list(numbers), next_gauss],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restores a saved state; that of a device only if there is one."""
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), *rest))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))


def seed_rank(seed: int, step: int, rank: int) -> None:
    """Seeds all generators with numbers that only this rank has, from this step on."""
    for_torch, for_numpy, for_python = np.random.SeedSequence((seed, step, rank)).generate_state(3).tolist()
    torch.manual_seed(for_torch)
    np.random.seed(for_numpy)
    random.seed(for_python)
