"""Measures models in turn within one run: tokens per second, spread, share of peak, memory, ratios."""

import gc
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import torch

Step = Callable[[], int]
"""Runs one step and returns its number of tokens."""
OURS = "clearhead"


@dataclass(frozen=True)
class Turns:
    """Device and duration of a measurement: rounds in which each model runs some steps."""

    device: torch.device
    rounds: int
    steps: int


def about(device: torch.device) -> str:
    """Date, device and versions."""
    import transformers

    name = (
        torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    )
    return f"{date.today()}, {name}, torch {torch.__version__}, transformers {transformers.__version__}"


def table(
    title: str,
    turns: Turns,
    makers: dict[str, Callable[[], Step]],
    peak: float,
    flops: float,
    unit: str = "tokens",
) -> dict:
    """Measure models in turn, print and return their medians; `flops` is the work per token or other unit."""
    print(title)
    print(f"  {'model':32}{f'{unit}/s':>12}{'spread':>9}{'of peak':>9}{'memory':>10}{'ours is':>9}")
    steps: dict[str, Step] = {}
    memory, skipped = {}, {}
    for name, make in makers.items():
        torch.manual_seed(0)
        try:
            steps[name], memory[name] = warmed(make, turns.device)
        except Exception as error:
            # Peers may be missing, fail to compile or run out of memory: report that instead of stopping.
            if name == OURS:
                raise
            skipped[name] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:80]}"
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(turns.rounds):
        names = list(steps)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            rates[name].append(speed(steps[name], turns))
    mine, found = rates[OURS], {}
    for name, theirs in rates.items():
        median = statistics.median(theirs)
        spread = (max(theirs) - min(theirs)) / median
        ratio = statistics.median(own / other for own, other in zip(mine, theirs, strict=True))
        found[name] = {
            f"{unit}_per_second": median,
            "spread": spread,
            "share_of_peak": median * flops / peak,
            "gigabytes": memory[name] / 1e9,
            "ratio_of_ours": ratio,
        }
        print(
            f"  {name:32}{median:12,.0f}{spread:9.1%}{median * flops / peak:9.1%}"
            f"{memory[name] / 1e9:8.1f}GB{ratio:8.2f}x"
        )
    for name, reason in skipped.items():
        print(f"  {name:32}  skipped: {reason}")
    print(flush=True)
    steps.clear()
    release(turns.device)
    return {"title": title, "models": found, "skipped": skipped}


def warmed(make: Callable[[], Step], device: torch.device) -> tuple[Step, int]:
    """A model after its first steps, and its peak memory in bytes."""
    release(device)
    before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
    step = make()
    for _ in range(5):
        step()
    return step, torch.cuda.max_memory_allocated() - before if device.type == "cuda" else 0


def release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def speed(step: Step, turns: Turns) -> float:
    """Tokens per second."""
    synchronize = torch.cuda.synchronize if turns.device.type == "cuda" else lambda: None
    synchronize()
    start = time.perf_counter()
    tokens = sum(step() for _ in range(turns.steps))
    synchronize()
    return tokens / (time.perf_counter() - start)


def peak(turns: Turns) -> float:
    """FLOP/s of large matrix products in bf16."""
    size = 8192 if turns.device.type == "cuda" else 256
    matrix = torch.randn(size, size, device=turns.device, dtype=torch.bfloat16)

    def product() -> int:
        matrix @ matrix
        return 1

    for _ in range(3):
        product()
    return 2 * size**3 * statistics.median(speed(product, turns) for _ in range(5))


def memory_bandwidth(turns: Turns) -> float:
    """Bytes per second that a copy reads and writes."""
    size = 1 << (30 if turns.device.type == "cuda" else 20)
    source, target = (torch.empty(size, dtype=torch.int8, device=turns.device) for _ in range(2))

    def copy() -> int:
        target.copy_(source)
        return 2 * size

    copy()
    return speed(copy, turns)
