"""Translating on a GPU in slots: any number of sources, sorted by length, in graphs of a few sizes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.accel.graphs import GraphedStep
from clearhead.decoding import Hypothesis
from clearhead.decoding.continuous import search_in_slots
from clearhead.decoding.slots import SlotSearch
from clearhead.models.slots import SlotEngine, Slots
from clearhead.text.tokenizer import BOS, EOS, PAD

# Rows that are decoded together at most, if their caches fit this share of the free memory.
MAX_ROWS, MEMORY_SHARE = 8192, 0.4
# Positions of the smallest slots; larger ones have a power of two times as many.
MIN_CAPACITY = 64
# Up to this capacity, short sentences may be searched with long ones. cached_attention.SHORT is at least as
# large, so that kernels compute the same for all of these capacities.
MERGED_CAPACITY = 256
# What a step takes besides its rows, as a number of rows; an estimate for the base Transformer on an H200.
OVERHEAD_ROWS = 1024
# Source tokens, padding included, that are encoded at a time.
ENCODED = 65536
# Lengths are padded to a multiple of this, so that there are few.
WIDTH = 8
# Up to this many sources at a time, their number is padded to a power of two.
SMALL = 64
# Prefills kept as CUDA graphs, one per batch size and padded length.
MAX_PREFILLS = 16
# Searches kept for the next texts, each with its caches and its graph.
MAX_KEPT = 4


def search_all_in_slots(
    engine: SlotEngine, sources: Sequence[list[int]], limits: Sequence[int], beam: int, length_penalty: float
) -> list[list[Hypothesis]]:
    """The best hypothesis of each source, within its maximum length; none for an empty source."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for capacity, numbers in _groups(engine, sources, limits, beam, length_penalty).items():
        # The longest come first, so that no long sentence is left alone at the end.
        numbers.sort(key=lambda number: len(sources[number]), reverse=True)
        table = _table([sources[number] for number in numbers], [limits[number] for number in numbers])
        slots = _slots(engine, len(numbers), beam, capacity, length_penalty)
        with _searching(engine, slots, beam, capacity, length_penalty) as search:
            best = search_in_slots(search, len(numbers), partial(_prefill, engine, search, table))
        for number, one in zip(numbers, best, strict=True):
            found[number] = [one]
    return found


def _groups(
    engine: SlotEngine, sources: Sequence[list[int]], limits: Sequence[int], beam: int, length_penalty: float
) -> dict[int, list[int]]:
    """The sentences to search together, by capacity; a group joins the next one where that saves time."""
    groups: dict[int, list[int]] = {}
    for number, (source, limit) in enumerate(zip(sources, limits, strict=True)):
        if source:
            groups.setdefault(_power_of_two(max(len(source) + 1, limit, MIN_CAPACITY)), []).append(number)

    def work(numbers: list[int], capacity: int) -> float:
        """Steps times rows if all sentences reach their limits."""
        slots = _slots(engine, len(numbers), beam, capacity, length_penalty)
        lengths = [limits[number] for number in numbers]
        return max(max(lengths), sum(lengths) / slots) * (slots * beam + OVERHEAD_ROWS)

    merged: dict[int, list[int]] = {}
    for capacity, numbers in sorted(groups.items()):
        smaller = max(merged, default=capacity)
        if smaller < capacity <= MERGED_CAPACITY:
            apart = work(merged[smaller], smaller) + work(numbers, capacity)
            if work(merged[smaller] + numbers, capacity) <= apart:
                numbers = merged.pop(smaller) + numbers
        merged[capacity] = numbers
    return merged


def _table(sources: Sequence[list[int]], limits: Sequence[int]) -> Tensor:
    """A row for each source: a slot to fill in, maximum length, source length, and the padded source."""
    lengths = np.array([len(source) for source in sources])
    table = np.full((len(sources), 4 + lengths.max()), PAD, dtype=np.int64)
    tokens = table[:, 3:]
    is_token = np.arange(tokens.shape[1]) < lengths[:, None]
    tokens[is_token] = np.fromiter(chain.from_iterable(sources), np.int64, int(lengths.sum()))
    tokens[np.arange(len(sources)), lengths] = EOS
    table[:, 1], table[:, 2] = limits, lengths + 1
    return torch.from_numpy(table)


def _prefill(engine: SlotEngine, search: SlotSearch, table: Tensor, slots: list[int], first: int) -> None:
    """Encodes the sources of the table from row `first` on, and starts their searches in these slots."""
    length = int(table[first, 2])
    width = min(-(-length // WIDTH) * WIDTH, engine.config.max_positions)
    step = max(1, ENCODED // width)
    for start in range(0, len(slots), step):
        some = slots[start : start + step]
        rows = table[first + start : first + start + len(some), : 3 + width]
        given = F.pad(rows, (0, 3 + width - rows.shape[1]), value=PAD).clone()
        given[:, 0] = torch.tensor(some)
        # Repeated rows change nothing, and there are fewer sizes.
        if len(given) <= SMALL:
            missing = min(_power_of_two(len(given)), search.state.slots) - len(given)
            given = torch.cat([given, given[-1:].expand(missing, -1)])
        _prefill_of(search, len(given), width)(engine, search, given)


class Prefill:
    """Encodes sources of one padded length and starts their searches; a CUDA graph from call two on.

    Each call must be given the same engine and search.
    """

    def __init__(self, count: int, width: int, device: torch.device):
        self._calls = 0
        with torch.inference_mode(False):
            self._given = torch.zeros(count, 3 + width, dtype=torch.long, device=device)
        self._graphed = GraphedStep(device)

    def __call__(self, engine: SlotEngine, search: SlotSearch, given: Tensor) -> None:
        """Starts sentences: each row holds slot, maximum length, source length and source tokens."""
        self._given.copy_(given)
        self._calls += 1
        run = partial(self._run, engine, search)
        if self._calls == 1:
            run()
        else:
            self._graphed(run)

    def _run(self, engine: SlotEngine, search: SlotSearch) -> Tensor:
        (slots, limits, lengths), source = self._given[:, :3].unbind(1), self._given[:, 3:]
        started = engine.start(source, lengths)
        search.state.fill(slots, started.source.blocks, lengths)  # pyright: ignore
        search.fill(slots, limits)
        return search.running


def _prefill_of(search: SlotSearch, count: int, width: int) -> Prefill:
    """A kept or new prefill of this size; only powers of two are kept, because other sizes rarely recur."""
    kept: dict[Any, Prefill] = search.kept
    device = search.limits.device
    if count != _power_of_two(count):
        return Prefill(count, width, device)
    if (count, width) not in kept:
        for oldest in list(kept)[: max(0, 1 + len(kept) - MAX_PREFILLS)]:
            del kept[oldest]
        kept[count, width] = Prefill(count, width, device)
    return kept[count, width]


@contextmanager
def _searching(
    engine: SlotEngine, slots: int, beam: int, capacity: int, length_penalty: float
) -> Iterator[SlotSearch]:
    """A kept or new search of this size, for this thread alone."""
    key = (slots, beam, capacity, length_penalty)
    search = engine.kept.pop(key, None)
    if search is None:
        state = Slots(engine.model, slots, beam, capacity)
        # Not the engine's own step: an engine that holds itself would not be freed with its last reference.
        step: Any = engine.model.step
        search = SlotSearch(step, state, BOS, EOS, length_penalty)
    yield search
    # Not reached after an error: the slots may then hold unfinished sentences.
    engine.kept[key] = search
    for oldest in list(engine.kept)[:-MAX_KEPT]:
        engine.kept.pop(oldest, None)


def _slots(engine: SlotEngine, sentences: int, beam: int, capacity: int, length_penalty: float) -> int:
    """How many sentences to decode together: all, if a search of this size is kept or fits into memory."""
    config, like = engine.config, engine.readout_weight
    slots = min(_power_of_two(sentences), _power_of_two(MAX_ROWS // beam + 1) // 2) or 1
    if not like.is_cuda:
        return slots
    heads = config.attention.kv_heads or config.attention.heads
    position = 2 * len(engine.model.decoder.blocks) * heads * config.head_size * like.element_size()
    # The logits of all rows, and the caches of all rows and of the source.
    sentence = 2 * beam * like.nbytes // config.width + position * capacity * (beam + 1)
    most = MEMORY_SHARE * torch.cuda.mem_get_info(like.device)[0] / sentence
    while slots > max(1, most) and (slots, beam, capacity, length_penalty) not in engine.kept:
        slots //= 2
    return slots


def _power_of_two(least: int) -> int:
    """The smallest power of two that is at least this."""
    return 1 << (least - 1).bit_length()
