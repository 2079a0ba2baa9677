"""Decoding speed: several decoders in turn on the same texts, with medians and spread."""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

# Engines prepare themselves in their first steps, ours by tracing one; slow ones get this many seconds.
WARM_UP_STEPS, WARM_UP_SECONDS = 128, 3.0
Batch = Sequence[list[int]]
Decode = Callable[[Batch, int, tuple[int, int]], list[list[int]]]
"""Takes a batch of ids, the size of the beam, and the fewest and most tokens to write; returns the tokens."""


@dataclass(frozen=True)
class Case:
    """What is decoded together, and how."""

    batch: int
    beam: int = 1

    def __str__(self) -> str:
        return f"batch {self.batch}, {'greedy' if self.beam == 1 else f'beam {self.beam}'}"


@dataclass(frozen=True)
class Round:
    """What a decoder did in one round."""

    texts: int
    tokens: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Speed:
    """The speed of a decoder over several rounds: medians per second, and per CPU-second of all threads."""

    rounds: tuple[Round, ...]

    @property
    def texts_per_second(self) -> float:
        return statistics.median(one.texts / one.seconds for one in self.rounds)

    @property
    def tokens_per_second(self) -> float:
        return statistics.median(one.tokens / one.seconds for one in self.rounds)

    @property
    def texts_per_cpu_second(self) -> float:
        return statistics.median(one.texts / one.cpu_seconds for one in self.rounds)

    @property
    def tokens_per_cpu_second(self) -> float:
        return statistics.median(one.tokens / one.cpu_seconds for one in self.rounds)

    def spread(self, cpu: bool) -> float:
        """The range of the rates, relative to their median: of those per CPU-second, or per second."""
        rates = [one.texts / (one.cpu_seconds if cpu else one.seconds) for one in self.rounds]
        return (max(rates) - min(rates)) / statistics.median(rates)


def batches(texts: Sequence[list[int]], size: int) -> Sequence[Batch]:
    """Batches of texts of similar length, in random order but always the same; few texts are repeated."""
    repeated = list(islice(cycle(texts), max(size, len(texts))))
    ordered = sorted(repeated, key=len)
    found = [ordered[first : first + size] for first in range(0, len(ordered) - size + 1, size)]
    random.Random(0).shuffle(found)
    return found


def measure(
    decoders: Mapping[str, Decode],
    texts: Sequence[Batch],
    beam: int,
    limits: Callable[[Batch], tuple[int, int]],
    rounds: int,
    seconds: float,
) -> Iterator[dict[str, Round]]:
    """Rounds in which all decode the same batches, for about so many seconds each.

    Before the first, engines prepare themselves.
    """
    counts = [_warm_up(decode, texts, beam, limits, seconds) for decode in decoders.values()]
    work = list(islice(cycle(texts), max(1, int(statistics.median(counts)))))
    names = list(decoders)
    for number in range(rounds):
        shift = number % len(names)
        found = {name: _round(decoders[name], work, beam, limits) for name in names[shift:] + names[:shift]}
        yield {name: found[name] for name in names}


def speeds(rounds: Sequence[Mapping[str, Round]]) -> dict[str, Speed]:
    """The speed of each decoder over these rounds."""
    return {name: Speed(tuple(one[name] for one in rounds)) for name in (rounds[0] if rounds else ())}


def _warm_up(
    decode: Decode,
    texts: Sequence[Batch],
    beam: int,
    limits: Callable[[Batch], tuple[int, int]],
    seconds: float,
) -> int:
    """The number of batches that are decoded in about so many seconds, after the engine's first steps."""
    start, steps = time.perf_counter(), 0
    for batch in cycle(texts):
        steps += max(map(len, decode(batch, beam, limits(batch)))) + 1
        if steps >= WARM_UP_STEPS or time.perf_counter() - start >= WARM_UP_SECONDS:
            break
    start = time.perf_counter()
    for count, batch in enumerate(cycle(texts), start=1):
        decode(batch, beam, limits(batch))
        if time.perf_counter() - start >= seconds:
            return count
    return 0


def _round(
    decode: Decode, work: Sequence[Batch], beam: int, limits: Callable[[Batch], tuple[int, int]]
) -> Round:
    texts = tokens = 0
    start, cpu = time.perf_counter(), time.process_time()
    for batch in work:
        found = decode(batch, beam, limits(batch))
        texts, tokens = texts + len(found), tokens + sum(map(len, found))
    return Round(texts, tokens, time.perf_counter() - start, time.process_time() - cpu)
