"""Device and precision of a run, chosen by rule and logged once."""

import logging
import os
from typing import Literal

import torch
from torch import nn

from clearhead.accel import enabled, kernels
from clearhead.errors import SettingsError
from clearhead.wording import counted

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "fp32", "bf16"]

# In narrower models, products are too small for bf16 to pay for its conversions on a CPU.
MIN_WIDTH_FOR_BF16 = 128

log = logging.getLogger(__name__)


def choose_device(option: Device = "auto", setting: str = "training.device") -> torch.device:
    """The device of a run, which is logged; errors name the setting it comes from."""
    device = find_device(option, setting)
    threads = torch.get_num_threads()
    cpu = counted(threads, "thread")
    log.info("device: %s (%s)", device, torch.cuda.get_device_name(device) if device.type == "cuda" else cpu)
    return device


def find_device(option: Device = "auto", setting: str = "training.device") -> torch.device:
    """A GPU if there is one, unless the option says otherwise; under torchrun, the one of this process."""
    if option == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"{setting}: 'cuda', but torch finds no GPU here; use 'auto' or 'cpu'")
    return torch.device("cuda", _local_gpu()) if on_gpu(option) else torch.device("cpu")


def on_gpu(option: Device) -> bool:
    """Whether a run with this option computes on a GPU."""
    return option != "cpu" and torch.cuda.is_available()


def _local_gpu() -> int:
    rank, count = os.environ.get("LOCAL_RANK", ""), torch.cuda.device_count()
    if not rank.isdecimal():
        return torch.cuda.current_device()
    if int(rank) >= count:
        raise SettingsError(
            f"LOCAL_RANK: {rank}, but this machine has {count} GPUs; start at most {count} processes on it "
            "(torchrun --nproc-per-node)"
        )
    return int(rank)


def choose_precision(option: Precision, device: torch.device, model: nn.Module) -> torch.dtype:
    """The dtype of matrix products; bfloat16 means autocast, the weights stay in float32."""
    if device.type == "cuda":
        supported, reason = torch.cuda.is_bf16_supported(including_emulation=False), "supported by the GPU"
    else:
        supported = _cpu_has_bf16() and _width(model) >= MIN_WIDTH_FOR_BF16
        reason = "supported by the CPU"
    if option == "bf16" and not supported and device.type == "cuda":
        log.warning("precision: fp32, because this GPU does not support bf16 (training.precision)")
        return torch.float32
    if option == "bf16" or (option == "auto" and supported):
        log.info("precision: bf16 autocast (%s)", "training.precision" if option == "bf16" else reason)
        if device.type == "cuda" and enabled() and not kernels.HAS_TRITON:
            log.warning("kernels: torch's own, which are slower; install triton for clearhead's")
        return torch.bfloat16
    log.info("precision: fp32")
    return torch.float32


def _width(model: nn.Module) -> int:
    """The width of the widest matrix in both directions, which in a Transformer is the model's width."""
    return max((min(p.shape) for p in model.parameters() if p.ndim == 2), default=0)


def _cpu_has_bf16() -> bool:
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
