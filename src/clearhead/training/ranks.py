"""The processes that train one model together: which of them this one is, and how they agree."""

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

T = TypeVar("T")
# While rank 0 prepares a corpus or validates, the others wait; one that dies is noticed by its connection.
PATIENCE = timedelta(days=7)
NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT")
# How the libraries below say that the other end of a connection is gone.
LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo", "NCCL error")

# The store of torchrun outlives a group: what a second run of the same processes writes there must not be
# taken for what the first one wrote.
_JOINED = itertools.count()


class Ranks:
    """The processes that train one model together; here, one that is alone."""

    rank = 0
    count = 1

    def first(self, make: Callable[[], T]) -> T:
        """What rank 0 makes, in every rank; an error of it that a person can mend is raised in all."""
        return make()

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in every rank."""
        return [value]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, computed where the tensor lies."""
        return tensor

    def stop_requests(self) -> "StopRequests":
        return StopRequests()

    def batches_per_step(self, accumulate: int) -> int:
        """How many batches all ranks take for a step: as many as asked for, but one a rank at least."""
        return max(accumulate, self.count)

    def share(self, batches_per_step: int) -> int:
        """How many of the batches of a step each rank takes; TrainingError if they cannot be dealt out."""
        if batches_per_step % self.count:
            able = ", ".join(
                str(count) for count in range(1, batches_per_step + 1) if batches_per_step % count == 0
            )
            raise TrainingError(
                f"{self.count} ranks cannot share the {batches_per_step} batches of a step; use one of these numbers "
                f"of ranks: {able}; or begin a new run with training.accumulate a multiple of {self.count}"
            )
        return batches_per_step // self.count


class StopRequests:
    """What some rank wishes, told to all; a process alone hears itself at once."""

    def heard(self, *options: bool) -> list[bool]:
        """For each wish, whether some rank has it. Every rank asks once a step, and all hear the same."""
        return list(options)


class Group(Ranks):
    """Several processes, joined by torch.distributed.

    Tensors in training go over the backend of their device. What processes say to each other goes over gloo,
    so that no device waits for it, and waiting for rank 0 takes as long as it takes.
    """

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()
        self.control: Any = dist.new_group(backend="gloo", timeout=PATIENCE)

    def first(self, make: Callable[[], T]) -> T:
        said: list[Any] = [None, None]
        if self.rank == 0:
            try:
                said[0] = make()
            except (ClearheadError, OSError) as error:
                said[1] = error
        dist.broadcast_object_list(said, src=0, group=self.control)
        if said[1] is not None:
            raise said[1]
        return said[0]

    def gather(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value, group=self.control)
        return values

    def sum(self, tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor)
        return tensor

    def stop_requests(self) -> "StopRequests":
        return _SharedStopRequests(self.control)


class _SharedStopRequests(StopRequests):
    """StopRequests travel while the next step is computed, and are heard after it: nobody waits for them."""

    def __init__(self, control: Any):
        self._control = control
        self._sent: tuple[Any, Tensor] | None = None

    def heard(self, *options: bool) -> list[bool]:
        before = [False] * len(options)
        if self._sent:
            self._sent[0].wait()
            before = [bool(count) for count in self._sent[1].tolist()]
        # What is granted now need not be wished for again.
        flags = torch.tensor(
            [options and not granted for options, granted in zip(options, before, strict=True)]
        ).int()
        self._sent = dist.all_reduce(flags, group=self._control, async_op=True), flags
        return before


@contextmanager
def joined(options: Device) -> Iterator[Ranks]:
    """The processes that torchrun has started, this one among them; without torchrun, this one alone.

    A group that the caller has made is used and left as it is.
    """
    device = find_device(options)
    if dist.is_initialized():
        group = Group()
        with _naming_loss(group):
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
    group = _join(device)
    try:
        with _naming_loss(group):
            yield group
    except RankError:
        # Leaving a broken group in order would mean to wait for the one that is gone.
        raise
    except BaseException:
        dist.destroy_process_group()
        raise
    dist.destroy_process_group()


@contextmanager
def _naming_loss(ranks: Ranks) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not _lost(error):
            raise
        raise RankError(
            f"rank {ranks.rank}: another of the {ranks.count} ranks has ended, and so has the run; "
            "go on from its last saved state with --resume"
        ) from error


def _join(device: torch.device) -> Group:
    try:
        store, rank, size = next(rendezvous("env://"))
    except dist.DistError as error:
        raise TrainingError(f"the other ranks cannot be reached: {str(error).splitlines()[0]}") from error
    own = dist.PrefixStore(f"clearhead/{next(_JOINED)}", store)  # pyright: ignore[reportPrivateImportUsage]
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", store=own, rank=rank, world_size=size, device_id=device)
    else:
        dist.init_process_group("gloo", store=own, rank=rank, world_size=size)
    return Group()


def _lost(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in LOST)
