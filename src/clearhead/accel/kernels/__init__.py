"""GPU kernels by hand, for what a compiler leaves on the table; imported only where they serve."""

from importlib.util import find_spec

import torch
from torch import Tensor, nn

NARROW: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float16)
HAS_TRITON = find_spec("triton") is not None and torch.version.cuda is not None
# The compute capability of the oldest GPUs that triton compiles for.
OLDEST = (7, 0)


def compilable() -> bool:
    """Whether kernels can be made here: triton is installed, and there is a GPU new enough for it."""
    return HAS_TRITON and torch.cuda.is_available() and torch.cuda.get_device_capability() >= OLDEST


def serve(x: Tensor) -> bool:
    """Whether there are kernels for such a tensor; where not, torch's own do."""
    return HAS_TRITON and x.is_cuda and x.dtype in NARROW


def looked_at(*modules: nn.Module) -> bool:
    """Whether somebody looks at one of these by a hook, which a kernel in its position would not call."""
    return any(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        for module in modules
    )
