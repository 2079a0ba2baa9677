"""Tensors that arrive one by one while a pass runs: the first pictures need not wait for its end."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import torch
from torch import Tensor

from clearhead.explorer.interventions import Changes
from clearhead.inspection import Trace, intervene, sites
from clearhead.inspection.explanation import Explanation, not_captured
from clearhead.inspection.sites import Hook, attached

Keep = Callable[[str, Tensor], None]


class PendingTrace:
    """Tensors by name, some of them on their way: whoever asks for one waits until it is there."""

    def __init__(self, there: Mapping[str, Tensor], awaited: Iterable[str] = ()):
        self._there, self._awaited = dict(there), set(awaited)
        self._under_way = bool(self._awaited)
        self._trouble: Exception | None = None
        self._news = threading.Condition()

    @property
    def bytes(self) -> int:
        with self._news:
            return sum(tensor.nbytes for tensor in self._there.values())

    def put(self, name: str, tensor: Tensor) -> None:
        with self._news:
            self._there[name] = tensor
            self._awaited.discard(name)
            self._news.notify_all()

    def end(self, trouble: Exception | None = None) -> None:
        """Nothing more is on its way; whoever still waits is told why."""
        with self._news:
            self._awaited.clear()
            self._under_way, self._trouble = False, trouble
            self._news.notify_all()

    def ended(self, seconds: float) -> bool:
        """Whether nothing is on its way any more, after so many seconds at most."""
        with self._news:
            return self._news.wait_for(lambda: not self._under_way, seconds)

    def wait(self) -> None:
        """Until nothing is on its way any more."""
        with self._news:
            self._news.wait_for(lambda: not self._under_way)
            if self._trouble:
                raise self._trouble

    def coming(self, names: Iterable[str]) -> bool:
        """Whether all are there or on their way."""
        with self._news:
            return self._there.keys() | self._awaited >= set(names)

    def get(self, names: Collection[str]) -> list[Tensor]:
        with self._news:
            self._news.wait_for(lambda: self._awaited.isdisjoint(names))
            for name in names:
                if name not in self._there:
                    raise self._trouble or not_captured(name)
            return [self._there[name] for name in names]

    def trace(self) -> Trace:
        """All that is there, with the batch's axis."""
        with self._news:
            return Trace({name: tensor[None] for name, tensor in self._there.items()})


@torch.no_grad()
def look(told: Explanation, changes: Changes, names: Iterable[str], keep: Keep) -> Tensor:
    """The logits of a pass over an explanation's ids; tensors of these names are kept as they come by."""
    found = sites(told.model)

    def keeper(name: str) -> Hook:
        def heard(tensor: Tensor) -> Tensor:
            keep(name, tensor.detach()[0].cpu())
            return tensor

        return heard

    with (
        intervene(told.model, changes),
        attached([(found[name], keeper(name)) for name in names], readonly=True),
    ):
        return told.run().cpu()


class Enough(Exception):  # noqa: N818, as it is no error
    """All that was wanted of a pass is there."""


def look_up_to(told: Explanation, changes: Changes, names: Collection[str]) -> Mapping[str, Tensor]:
    """Tensors of a pass that goes no further than to the last of them."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, tensor: Tensor) -> None:
        seen[name] = tensor
        if len(seen) == len(names):
            raise Enough

    with suppress(Enough):
        look(told, changes, names, keep)
    return seen
