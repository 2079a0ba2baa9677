"""Continuous batching: new sentences take the slots of finished ones, so a file keeps the batch full."""

from collections.abc import Callable

import torch

from clearhead.decoding.slots import Finished, SlotSearch
from clearhead.decoding.step import Hypothesis

# Steps between two checks by the host, which then waits for the device.
STEPS = 4
# Slots are filled when this share of them is free, because encoding few sentences takes as long as many.
FREE_SHARE = 0.25

Prefill = Callable[[list[int], int], None]
"""Starts sentences in these slots, from the sentence of this number on."""


@torch.no_grad()
def search_in_slots(search: SlotSearch, count: int, prefill: Prefill) -> list[Hypothesis]:
    """The hypotheses of sentences 0 to count - 1, which take slots in this order.

    The host reads results while the device computes the next steps.
    """
    device, refill = search.limits.device, max(1, int(FREE_SHARE * search.state.slots))
    found: dict[int, Hypothesis] = {}
    holds: dict[int, int] = {}
    free, first = list(range(search.state.slots)), 0
    results: tuple[list[int], Finished] | None = None
    while first < count or holds:
        while first < count and (taken := _taken(len(free), count - first, refill, not holds)):
            slots, free = free[:taken], free[taken:]
            prefill(slots, first)
            holds.update(zip(slots, range(first, first + taken), strict=True))
            first += taken
        for _ in range(STEPS):
            search.advance()
        if results:
            found.update(zip(results[0], results[1].hypotheses(), strict=True))
        running, results = search.running.tolist(), None
        if done := [slot for slot in holds if not running[slot]]:
            results = [holds.pop(slot) for slot in done], search.finished(torch.tensor(done, device=device))
            free += done
    if results:
        found.update(zip(results[0], results[1].hypotheses(), strict=True))
    return [found[number] for number in range(count)]


def _taken(free: int, waiting: int, refill: int, is_empty: bool) -> int:
    """How many sentences start now: at first as many as fit, later the same number each time."""
    if is_empty:
        return min(free, waiting)
    taken = min(refill, waiting)
    return taken if free >= taken else 0
