"""The processes (ranks) that train one model, and their communication."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from clearhead.errors import ClearheadError, RankError, SettingsError, TrainingError
from clearhead.training.devices import Device, find_device
from clearhead.wording import counted

T = TypeVar("T")
# Long enough for rank 0 to prepare a corpus or validate; a rank that dies is noticed by its connection.
TIMEOUT = timedelta(days=7)
NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT")
# Parts of the messages with which the backends report a lost connection.
LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo", "NCCL error")

# torchrun's store outlives a group, so each group of these processes gets its own prefix in it.
_GROUPS = itertools.count()


class Ranks:
    """The processes that train one model; this class is a single one."""

    rank = 0
    count = 1

    def first(self, make: Callable[[], T]) -> T:
        """The result of rank 0, in every rank; user errors of rank 0 are raised in all."""
        return make()

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in every rank."""
        return [value]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, computed on the tensor's device."""
        return tensor

    def stop_requests(self) -> "StopRequests":
        return StopRequests()

    def batches_per_step(self, accumulate: int) -> int:
        """Batches per optimizer step over all ranks: `accumulate`, but at least one per rank."""
        return max(accumulate, self.count)

    def share(self, batches_per_step: int) -> int:
        """Batches per optimizer step of each rank; TrainingError if they cannot be divided evenly."""
        if batches_per_step % self.count:
            divisors = [str(n) for n in range(1, batches_per_step + 1) if batches_per_step % n == 0]
            raise TrainingError(
                f"{self.count} ranks cannot share the {counted(batches_per_step, 'batch')} of a step; "
                f"use one of these numbers of ranks: {', '.join(divisors)}; or start a new run with "
                f"training.accumulate a multiple of {self.count}"
            )
        return batches_per_step // self.count


class StopRequests:
    """Flags of any rank, known to all ranks; a single process sees its own at once."""

    def poll(self, *flags: bool) -> list[bool]:
        """For each flag, whether some rank has set it. Every rank calls it once per step."""
        return list(flags)


class Group(Ranks):
    """Several processes, joined by torch.distributed.

    Tensors in training use the backend of their device. Messages use gloo, so that no device waits for them
    and ranks can wait for rank 0 as long as it takes.
    """

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()
        self.control: Any = dist.new_group(backend="gloo", timeout=TIMEOUT)

    def first(self, make: Callable[[], T]) -> T:
        message: list[Any] = [None, None]
        if self.rank == 0:
            try:
                message[0] = make()
            except (ClearheadError, OSError) as error:
                message[1] = error
        dist.broadcast_object_list(message, src=0, group=self.control)
        if message[1] is not None:
            raise message[1]
        return message[0]

    def gather(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value, group=self.control)
        return values

    def sum(self, tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor)
        return tensor

    def stop_requests(self) -> StopRequests:
        return _SharedStopRequests(self.control)


class _SharedStopRequests(StopRequests):
    """Flags that travel during the next step and are seen after it, so that no rank waits for them."""

    def __init__(self, control: Any):
        self._control = control
        self._sent: tuple[Any, Tensor] | None = None

    def poll(self, *flags: bool) -> list[bool]:
        seen = [False] * len(flags)
        if self._sent:
            self._sent[0].wait()
            seen = [bool(count) for count in self._sent[1].tolist()]
        # A flag that is seen now need not be sent again.
        new = torch.tensor([flag and not before for flag, before in zip(flags, seen, strict=True)]).int()
        self._sent = dist.all_reduce(new, group=self._control, async_op=True), new
        return seen


@contextmanager
def join_ranks(device: Device) -> Iterator[Ranks]:
    """The processes that torchrun started, including this one; without torchrun, this one alone.

    A process group that the caller has initialised is used and left as it is.
    """
    found = find_device(device)
    if dist.is_initialized():
        group = Group()
        with _naming_lost_rank(group):
            yield group
        return
    if os.environ.get("WORLD_SIZE", "1") in ("", "1"):
        yield Ranks()
        return
    for name in NUMBERS:
        if not os.environ.get(name, "").isdecimal():
            raise SettingsError(
                f"{name}: {os.environ.get(name)!r} in the environment is not a number, but WORLD_SIZE is "
                f"{os.environ['WORLD_SIZE']!r}; start all processes with torchrun"
            )
    group = _join(found)
    try:
        with _naming_lost_rank(group):
            yield group
    except RankError:
        # Destroying a broken group would wait for the rank that is gone.
        raise
    except BaseException:
        dist.destroy_process_group()
        raise
    dist.destroy_process_group()


@contextmanager
def _naming_lost_rank(ranks: Ranks) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not any(part in str(error) for part in LOST):
            raise
        raise RankError(
            f"rank {ranks.rank}: another of the {ranks.count} ranks has ended, which stopped the run; "
            "continue from its last saved state with --resume"
        ) from error


def _join(device: torch.device) -> Group:
    try:
        store, rank, size = next(rendezvous("env://"))
    except dist.DistError as error:
        raise TrainingError(f"the other ranks cannot be reached: {str(error).splitlines()[0]}") from error
    own = dist.PrefixStore(f"clearhead/{next(_GROUPS)}", store)  # pyright: ignore
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", store=own, rank=rank, world_size=size, device_id=device)
    else:
        dist.init_process_group("gloo", store=own, rank=rank, world_size=size)
    return Group()
