"""Triton kernels, imported only where they run: on a GPU, where the compiler's own are slower."""

from importlib.util import find_spec

import torch
from torch import Tensor

from clearhead.accel import enabled
from clearhead.accel.torch_private import has_hooks

__all__ = ["HAS_TRITON", "NARROW", "compilable", "has_hooks", "supports", "supports_decoding"]

NARROW: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float16)
HAS_TRITON = enabled() and find_spec("triton") is not None and torch.version.cuda is not None
# Compute capability of the oldest GPUs that triton compiles for.
OLDEST = (7, 0)


def compilable() -> bool:
    """Whether kernels can be compiled here: triton is installed and the GPU is recent enough."""
    return HAS_TRITON and torch.cuda.is_available() and torch.cuda.get_device_capability() >= OLDEST


def supports(x: Tensor) -> bool:
    """Whether there are kernels for a tensor of this kind; if not, use torch's own."""
    return HAS_TRITON and x.is_cuda and x.dtype in NARROW


def supports_decoding(x: Tensor) -> bool:
    """Whether the kernels for decoding can run on this tensor; they take any precision."""
    return x.is_cuda and compilable()
