"""Where a run computes and in which precision, decided by rule and said once."""

import logging
import os
from typing import Literal

import torch

from clearhead.accel import kernels
from clearhead.errors import SettingsError

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "fp32", "bf16"]

# Narrower products are too small for bf16 to earn back its conversions on a processor.
WIDE_ENOUGH = 128

log = logging.getLogger(__name__)


def choose_device(options: Device = "auto", asked_by: str = "training.device") -> torch.device:
    """The device of a run, said in the log."""
    device = find_device(options, asked_by)
    threads = torch.get_num_threads()
    working = f"{threads} thread{'s' if threads > 1 else ''}"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else working
    log.info("device: %s (%s)", device, name)
    return device


def find_device(options: Device = "auto", asked_by: str = "training.device") -> torch.device:
    """A GPU where there is one and nobody said otherwise; under torchrun, that of this process."""
    if options == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"{asked_by}: 'cuda', but torch finds no GPU here; use 'auto' or 'cpu'")
    return torch.device("cuda", _own_gpu()) if on_gpu(options) else torch.device("cpu")


def on_gpu(options: Device) -> bool:
    """Whether a run with this wish would compute on a GPU."""
    return options != "cpu" and torch.cuda.is_available()


def _own_gpu() -> int:
    """The number of the GPU that this process is meant to have."""
    place, count = os.environ.get("LOCAL_RANK", ""), torch.cuda.device_count()
    if not place.isdecimal():
        return torch.cuda.current_device()
    if int(place) >= count:
        raise SettingsError(
            f"LOCAL_RANK: {place}, but this machine has {count} GPUs; start at most {count} processes on it "
            "(torchrun --nproc-per-node)"
        )
    return int(place)


def choose_precision(options: Precision, device: torch.device, width: int) -> torch.dtype:
    """The type in which products are taken; bfloat16 means autocast, the weights stay in float32."""
    if device.type == "cuda":
        able, reason = torch.cuda.is_bf16_supported(including_emulation=False), "the GPU computes in it"
    else:
        able, reason = _processor_has_bf16() and width >= WIDE_ENOUGH, "the processor computes in it"
    if options == "bf16" and not able and device.type == "cuda":
        log.warning("precision: fp32, as this GPU cannot compute in bf16 (training.precision)")
        return torch.float32
    if options == "bf16" or (options == "auto" and able):
        log.info("precision: bf16 autocast (%s)", "asked for" if options == "bf16" else reason)
        if device.type == "cuda" and not kernels.HAS_TRITON:
            log.warning("kernels: torch's own, which are slower; install triton for those of clearhead")
        return torch.bfloat16
    log.info("precision: fp32")
    return torch.float32


def _processor_has_bf16() -> bool:
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
