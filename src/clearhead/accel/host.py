"""Copies from a GPU that the host need not wait for at once."""

import torch
from torch import Tensor


class HostCopy:
    """A tensor on its way to the host; on a CPU, the tensor itself."""

    def __init__(self, tensor: Tensor):
        self._copy, self._ready = tensor, None
        if tensor.is_cuda:
            pinned = torch.empty_like(tensor, device="cpu", pin_memory=True)
            self._copy = pinned.copy_(tensor, non_blocking=True)
            self._ready = torch.cuda.Event()
            self._ready.record()

    def wait(self) -> Tensor:
        """The copy, once it has arrived."""
        if self._ready is not None:
            self._ready.synchronize()
        return self._copy
