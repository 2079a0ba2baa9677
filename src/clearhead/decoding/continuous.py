"""Continuous batching: new sentences take the slots of finished ones, so a file keeps the batch full."""

from collections.abc import Callable, Sequence

import torch

from clearhead.decoding.slots import SlotSearch
from clearhead.decoding.step import Hypothesis

# Steps between two looks of the host, which waits for the device then.
STEPS = 4
# Free slots are filled when they are this share of all, because encoding few sentences takes as long as many.
FREE_SHARE = 0.25

Fill = Callable[[list[int], list[int]], None]
"""Begins the sentences of these numbers in these slots."""


@torch.no_grad()
def search_in_slots(search: SlotSearch, sources: Sequence[int], fill: Fill) -> dict[int, Hypothesis]:
    """The hypothesis of each source, by its number; sources take slots in the given order."""
    slots, device = search.state.slots, search.limits.device
    waiting, found = list(reversed(sources)), {}
    holds: dict[int, int] = {}
    free = list(reversed(range(slots)))
    while waiting or holds:
        if waiting and (len(free) >= min(FREE_SHARE * slots, len(waiting)) or not holds):
            count = min(len(free), len(waiting))
            numbers, taken = ([pile.pop() for _ in range(count)] for pile in (waiting, free))
            holds.update(zip(taken, numbers, strict=True))
            fill(taken, numbers)
        for _ in range(STEPS):
            search.advance()
        running = search.running.tolist()
        done = [slot for slot in holds if not running[slot]]
        if done:
            for slot, one in zip(done, search.hypotheses(torch.tensor(done, device=device)), strict=True):
                found[holds.pop(slot)] = one
            free += reversed(done)
    return found
