"""The random generators of the process as a state that can be saved."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """Where torch (each device), numpy and Python stand, as tensors and JSON values."""
    _, keys, place, has_gauss, gauss = np.random.get_state()
    version, numbers, next_gauss = random.getstate()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "torch": torch.get_rng_state(),
        "cuda": {str(index): state for index, state in enumerate(devices)},
        "numpy": [np.asarray(keys).tolist(), int(place), int(has_gauss), float(gauss)],
        "python": [version, list(numbers), next_gauss],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """All generators go on from a saved state; devices that are not here are left out."""
    torch.set_rng_state(state["torch"])
    for index in range(torch.cuda.device_count()):
        if (saved := state.get("cuda", {}).get(str(index))) is not None:
            torch.cuda.set_rng_state(saved, index)
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), *rest))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
