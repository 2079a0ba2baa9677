"""Decoders are measured in turn, on the same texts."""

import pytest

from clearhead.tasks import speed
from clearhead.tasks.speed import Case, Round, Speed, batches, measure, speeds


def test_batches_hold_texts_of_similar_length_and_repeat_few_texts():
    texts = [[0] * length for length in (5, 1, 4, 2, 3, 6, 7)]
    found = batches(texts, 2)
    assert sorted(sorted(map(len, batch)) for batch in found) == [[1, 2], [3, 4], [5, 6]]
    assert batches(texts, 2) == found
    assert [len(batch) for batch in batches(texts, 16)] == [16]


def test_all_decode_the_same_batches_in_turn(monkeypatch):
    monkeypatch.setattr(speed, "WARM_UP_STEPS", 0)
    calls: list[tuple[str, int]] = []

    def decoder(name: str):
        def decode(batch, beam, limits):
            calls.append((name, len(batch[0])))
            return [[7] * limits[1] for _ in batch]

        return decode

    work = [[[1]], [[1, 1]], [[1, 1, 1]]]
    decoders = {name: decoder(name) for name in ("a", "b")}
    rounds = measure(decoders, work, 1, lambda batch: (0, 2 * len(batch[0])), rounds=2, seconds=0.0)
    first = next(rounds)
    assert calls[-2:] == [("a", 1), ("b", 1)]
    second = next(rounds)
    assert calls[-2:] == [("b", 1), ("a", 1)]
    assert list(first) == list(second) == ["a", "b"]
    assert (first["a"].texts, first["a"].tokens) == (1, 2)
    assert list(speeds([first, second])) == ["a", "b"]


def test_speeds_are_medians_with_their_range():
    found = Speed(tuple(Round(10, 100, seconds, 2 * seconds) for seconds in (1.0, 2.0, 5.0)))
    assert (found.texts_per_second, found.tokens_per_second) == (5.0, 50.0)
    assert (found.texts_per_cpu_second, found.tokens_per_cpu_second) == (2.5, 25.0)
    assert found.spread(cpu=False) == pytest.approx((10 - 2) / 5)
    assert found.spread(cpu=True) == pytest.approx((5 - 1) / 2.5)
    assert [str(Case(1)), str(Case(32, 4))] == ["batch 1, greedy", "batch 32, beam 4"]
