"""Translating on a GPU in slots: any number of sources, sorted by length, in graphs of a few sizes."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clearhead.accel.graphs import GraphedStep
from clearhead.decoding import Hypothesis
from clearhead.decoding.continuous import search_in_slots
from clearhead.decoding.slots import SlotSearch
from clearhead.models.slots import SlotEngine, Slots
from clearhead.text.tokenizer import BOS, EOS, PAD

# Rows that are decoded together at most, if their caches fit this share of the free memory.
MAX_ROWS, MEMORY_SHARE = 4096, 0.4
# Positions of the smallest slots; larger ones have a power of two times as many.
MIN_CAPACITY = 64
# Source tokens, padding included, that are encoded at a time.
ENCODED = 65536
# Lengths are padded to a multiple of this, so that there are few.
WIDTH = 8
# Up to this many sources at a time, encoding is recorded as a graph: more keep the GPU busy anyway.
GRAPHED = 64
MAX_BEGINNINGS = 16
# Searches kept for the next texts, each with its caches and its graph.
MAX_KEPT = 4


def search_all_in_slots(
    engine: SlotEngine, sources: Sequence[list[int]], limits: Sequence[int], beam: int, length_penalty: float
) -> list[list[Hypothesis]]:
    """The best hypothesis of each source, of at most so many tokens; of an empty source none."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    groups: dict[int, list[int]] = {}
    for number, (source, limit) in enumerate(zip(sources, limits, strict=True)):
        if source:
            groups.setdefault(_power_of_two(max(len(source) + 1, limit, MIN_CAPACITY)), []).append(number)
    for capacity, numbers in groups.items():
        # The longest come first, so that no long sentence is left alone at the end.
        numbers.sort(key=lambda number: len(sources[number]), reverse=True)
        slots = _slots(engine, len(numbers), beam, capacity)
        search = _search(engine, slots, beam, capacity, length_penalty)
        fill = partial(_fill, engine, search, sources, limits)
        for number, best in search_in_slots(search, numbers, fill).items():
            found[number] = [best]
    return found


def _fill(
    engine: SlotEngine,
    search: SlotSearch,
    sources: Sequence[list[int]],
    limits: Sequence[int],
    slots: list[int],
    numbers: list[int],
) -> None:
    """Begins sentences, the longest first, in these slots."""
    step = max(1, ENCODED // (len(sources[numbers[0]]) + 1))
    for first in range(0, len(numbers), step):
        part = numbers[first : first + step]
        rows = [[*sources[number], EOS] for number in part]
        width = min(-(-len(rows[0]) // WIDTH) * WIDTH, engine.config.max_positions)
        about = zip(slots[first : first + step], [limits[number] for number in part], rows, strict=True)
        given = [[slot, limit, len(row), *row, *[PAD] * (width - len(row))] for slot, limit, row in about]
        # Repeated rows change nothing, and there are fewer sizes.
        if len(given) <= GRAPHED:
            given += given[-1:] * (min(_power_of_two(len(given)), search.state.slots) - len(given))
        _beginning(engine, search, len(given), width)(torch.tensor(given))


class Beginning:
    """Encodes sources of one padded length and begins their search; a CUDA graph if used again."""

    def __init__(self, engine: SlotEngine, search: SlotSearch, count: int, width: int):
        self._engine, self._search, self._calls = engine, search, 0
        device = engine.readout_weight.device
        with torch.inference_mode(False):
            self._given = torch.zeros(count, 3 + width, dtype=torch.long, device=device)
        self._graphed = GraphedStep(self._begin, lambda: None, device)

    def __call__(self, given: Tensor) -> None:
        """Begins sentences: a row has slot, maximum length, source length and source."""
        self._given.copy_(given)
        self._calls += 1
        if len(given) > GRAPHED or self._calls == 1:
            self._begin()
        else:
            self._graphed()

    def _begin(self) -> Tensor:
        (slots, limits, lengths), source = self._given[:, :3].unbind(1), self._given[:, 3:]
        started = self._engine.start(source, lengths)
        self._search.state.fill(slots, started.source.blocks, lengths)  # pyright: ignore
        self._search.fill(slots, limits)
        return self._search.running


def _beginning(engine: SlotEngine, search: SlotSearch, count: int, width: int) -> Beginning:
    """What begins so many sentences, kept from earlier texts or new; large ones are not worth keeping."""
    kept: dict[Any, Beginning] = search.kept
    if count > GRAPHED:
        return Beginning(engine, search, count, width)
    if (count, width) not in kept:
        for oldest in list(kept)[: max(0, 1 + len(kept) - MAX_BEGINNINGS)]:
            del kept[oldest]
        kept[count, width] = Beginning(engine, search, count, width)
    return kept[count, width]


def _search(engine: SlotEngine, slots: int, beam: int, capacity: int, length_penalty: float) -> SlotSearch:
    """A search of this size, kept from earlier texts or new."""
    key = (slots, beam, capacity, length_penalty)
    search = engine.kept.pop(key, None)
    if search is None:
        for oldest in list(engine.kept)[: max(0, 1 + len(engine.kept) - MAX_KEPT)]:
            del engine.kept[oldest]
        state = Slots(engine.model, slots, beam, capacity)
        search = SlotSearch(engine.step, state, BOS, EOS, length_penalty)
    engine.kept[key] = search
    return search


def _slots(engine: SlotEngine, sentences: int, beam: int, capacity: int) -> int:
    """How many sentences to decode together: all, as far as their caches fit."""
    config, like = engine.config, engine.readout_weight
    heads = config.attention.kv_heads or config.attention.heads
    layers = len(engine.model.decoder.blocks)
    most = max(1, MAX_ROWS // beam)
    if like.is_cuda:
        position = 2 * layers * heads * config.head_size * like.element_size()
        free = torch.cuda.mem_get_info(like.device)[0]
        most = min(most, max(1, int(MEMORY_SHARE * free / (position * capacity * (beam + 1)))))
    return min(_power_of_two(sentences), _power_of_two(most + 1) // 2)


def _power_of_two(least: int) -> int:
    """The smallest power of two that is at least this."""
    return 1 << (least - 1).bit_length()
