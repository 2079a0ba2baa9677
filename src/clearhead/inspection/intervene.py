"""Changing what happens inside a model while it runs, to see what follows from it."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.inspection.edits import BY_KEY, Edit, Scene, places_of
from clearhead.inspection.sites import Listener, Site, listening, matching, sites
from clearhead.layers.embedding import Embedding

Change = Edit | Callable[[Tensor], Tensor]
"""An edit, or any function of the tensor at a site."""


@contextmanager
def intervene(model: nn.Module, changes: Mapping[str, Change | Sequence[Change]]) -> Iterator[None]:
    """Until the context ends, the tensors at sites that match the names are changed as they come by.

    Interventions nest, an inner one changing what an outer one left, and hold for whatever this thread
    computes: full passes, searches, captures. What is captured has the changes in it. Change the plain
    module, not a compiled or distributed wrapper of it; and where positions count, decode one text at a time.
    A position that nothing of what was computed has is refused at the end.
    """
    all_sites, progress, reaches = sites(model), Progress(), []
    if not isinstance(changes, Mapping):
        raise SettingsError(f"changes: {changes!r:.80} is no mapping; give {{name: edit}}")
    listeners: list[tuple[Site, Listener]] = []
    for pattern, given in changes.items():
        for name in matching([pattern], all_sites):
            for change in given if isinstance(given, Sequence) else [given]:
                _check(all_sites[name], change)
                reaches.append(Reach(all_sites[name], change))
                listeners += _listeners(all_sites, reaches[-1], change, progress)
    with progress.watching(model), listening(listeners, looks=False):
        yield
    for reach in reaches:
        reach.check()


def _check(site: Site, change: object) -> None:
    if isinstance(change, Edit):
        change.check(site)
    elif isinstance(change, type) and issubclass(change, Edit):
        raise SettingsError(
            f"{site.name}: {change.__name__} is a kind of edit; make one, {change.__name__}(…)"
        )
    elif not callable(change):
        raise SettingsError(f"{site.name}: {change!r} is no change; give an edit, or a function of a tensor")


class Progress:
    """How far the text has come that a model reads: where the words of the current pass begin."""

    first = 0

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        here = threading.get_ident()

        def hook(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            if threading.get_ident() == here:
                positions = given[1] if len(given) > 1 else named.get("positions")
                self.first = 0 if positions is None else int(positions.flatten()[0])

        with ExitStack() as stack:
            for module in model.modules():
                if isinstance(module, Embedding):
                    stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
            yield


class Reach:
    """How far the tensors have come that an edit could change: it may name a position that no text had."""

    def __init__(self, site: Site, change: Change):
        self.site, self.at = site, change.at if isinstance(change, Edit) else ()
        self.positions = 0

    def extend(self, tensor: Tensor, first: int) -> None:
        before = 0 if self.site.shown in BY_KEY else first
        self.positions = max(self.positions, before + places_of(self.site, tensor))

    def check(self) -> None:
        for position in self.at:
            if self.positions and position >= self.positions:
                raise SettingsError(
                    f"{self.site.name}: position {position} was never come to, so that nothing changed there; "
                    f"the text had positions 0 to {self.positions - 1}"
                )


def _listeners(
    all_sites: Mapping[str, Site], reach: Reach, change: Change, progress: Progress
) -> Iterator[tuple[Site, Listener]]:
    site, hidden = reach.site, None

    def note(masked: Tensor) -> Tensor:
        nonlocal hidden
        hidden = masked == float("-inf")
        return masked

    def edit(tensor: Tensor) -> Tensor:
        reach.extend(tensor, progress.first)
        if isinstance(change, Edit):
            return change.change(tensor, Scene(site, progress.first, hidden))
        changed = change(tensor)
        if not isinstance(changed, Tensor) or changed.shape != tensor.shape:
            got = tuple(changed.shape) if isinstance(changed, Tensor) else changed
            raise SettingsError(f"{site.name}: the change gives {got}, and {tuple(tensor.shape)} is needed")
        return changed

    if site.shown == "weights":
        yield all_sites[f"{site.path}.masked" if site.path else "masked"], note
    yield site, edit
