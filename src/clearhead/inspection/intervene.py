"""Changing the tensors of a forward pass, to see what follows from the change."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.inspection.edits import Edit, EditContext, position_count
from clearhead.inspection.offset import PositionOffset
from clearhead.inspection.sites import BY_KEY, Hook, Site, attached, matching, sites
from clearhead.layers.unrolling import unrolling

Change = Edit | Callable[[Tensor], Tensor]
"""An edit, or any function of the tensor at a site."""


@contextmanager
def intervene(model: nn.Module, changes: Mapping[str, Change | Sequence[Change]]) -> Iterator[None]:
    """Changes all tensors whose names match the keys of `changes`, until the context ends.

    Interventions nest: an inner one sees the result of an outer one. They apply to everything that this
    thread computes: full passes, searches, captures; a capture records the changed tensors. Use the plain
    module, not a compiled or distributed wrapper. Edits that name positions need one text at a time; a
    position that no tensor had is an error at the end.
    """
    if not isinstance(changes, Mapping):
        raise SettingsError(f"changes: {changes!r:.80} is not a mapping; pass {{name: edit}}")
    all_sites, offset = sites(model), PositionOffset()
    applied: list[AppliedChange] = []
    hooks: list[tuple[Site, Hook]] = []
    for pattern, given in changes.items():
        for name in matching([pattern], all_sites):
            for change in given if isinstance(given, Sequence) else [given]:
                _check(all_sites[name], change)
                applied.append(AppliedChange(all_sites[name], change, offset))
                hooks += applied[-1].hooks(all_sites)
    with offset.tracking(model), attached(hooks, readonly=False):
        yield
    for one in applied:
        one.check_positions()


def _check(site: Site, change: object) -> None:
    if isinstance(change, Edit):
        change.check(site)
    elif isinstance(change, type) and issubclass(change, Edit):
        raise site.error(f"{change.__name__} is a class; pass an instance, {change.__name__}(…)")
    elif not callable(change):
        raise site.error(f"{change!r} is not a change; pass an edit or a function of a tensor")


class AppliedChange:
    """A change at one site; it also records how many positions the tensors there had."""

    def __init__(self, site: Site, change: Change, offset: PositionOffset):
        self.site, self.change, self.offset = site, change, offset
        self.positions = 0
        self._masked: Tensor | None = None

    def hooks(self, all_sites: Mapping[str, Site]) -> Iterator[tuple[Site, Hook]]:
        if self.site.tensor == "weights":
            yield all_sites[f"{self.site.path}.masked" if self.site.path else "masked"], self._note_mask
        yield self.site, self._apply

    def check_positions(self) -> None:
        """Raises an error if the change names a position that no tensor had."""
        for position in self.change.positions_used if isinstance(self.change, Edit) else ():
            if self.positions and position >= self.positions:
                raise self.site.error(
                    f"nothing changed at position {position}; the text has positions 0 to "
                    f"{self.positions - 1}"
                )

    def _note_mask(self, masked: Tensor) -> Tensor:
        self._masked = masked == float("-inf")
        return masked

    def _apply(self, tensor: Tensor) -> Tensor:
        loop = unrolling()
        first = self.offset.first + (loop.position if loop else 0)
        before = 0 if self.site.tensor in BY_KEY else first
        self.positions = max(self.positions, before + position_count(self.site, tensor))
        if isinstance(self.change, Edit):
            return self.change.apply(tensor, EditContext(self.site, first, self._masked))
        changed = self.change(tensor)
        if not isinstance(changed, Tensor) or changed.shape != tensor.shape:
            got = tuple(changed.shape) if isinstance(changed, Tensor) else changed
            raise self.site.error(f"the change returned {got}, not {tuple(tensor.shape)}")
        return changed
