"""GPU kernels by hand, for what a compiler leaves on the table; imported only where they serve."""

from importlib.util import find_spec

import torch
from torch import Tensor

NARROW: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float16)
HAS_TRITON = find_spec("triton") is not None and torch.version.cuda is not None


def serve(x: Tensor) -> bool:
    """Whether there are kernels for such a tensor; where not, torch's own do."""
    return HAS_TRITON and x.is_cuda and x.dtype in NARROW
