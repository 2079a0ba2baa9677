"""Settings of the C library's allocator: freed memory is kept for the next tensors."""

import ctypes
import functools
import sys

from clearhead.accel import enabled

# Parameters of glibc's mallopt.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
MEBIBYTE = 1 << 20


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep up to a gibibyte that it has freed; False where that cannot be set.

    By default, glibc returns large blocks to the system at once. A search frees its logits and caches at
    every step and needs as much at the next, so the system would clear the same pages again and again.
    """
    if not enabled() or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    limits = {MMAP_THRESHOLD: 32 * MEBIBYTE, TRIM_THRESHOLD: 1024 * MEBIBYTE, TOP_PAD: 64 * MEBIBYTE}
    results = [mallopt(parameter, value) for parameter, value in limits.items()]
    return results == [1] * len(limits)
