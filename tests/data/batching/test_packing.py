"""Packed batches hold every pair once, in nearly full rows, the same for the same seed."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batch import PackedBatch
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.batching.packing import PackedBatches, assign_rows
from clearhead.data.batching.plan import Share
from clearhead.data.store import PairStore, TokenSequences
from clearhead.text.tokenizer import BOS, EOS, PAD

Pairs = list[tuple[list[int], list[int]]]


def make_store(count: int, max_length: int = 40, seed: int = 0) -> PairStore:
    """Distinct pairs: the first token on each side is the pair's number."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, max_length, (count, 2))
    sides = [
        [[10 + n, *random.integers(4, 9, size - 1)] for n, size in enumerate(side)] for side in lengths.T
    ]
    return PairStore.of(*sides)


def pairs_in(batch: PackedBatch) -> Pairs:
    """The pairs of a batch, found by their segments."""
    found: Pairs = []
    for row in range(len(batch)):
        source, source_segment, source_position, inputs, labels, segment, position = batch.cells[:, row]
        for pair in range(1, int(segment.max()) + 1):
            tokens, given, wanted = (
                source[source_segment == pair],
                inputs[segment == pair],
                labels[segment == pair],
            )
            assert tokens[-1] == EOS
            assert given[0] == BOS
            assert wanted[-1] == EOS
            assert given[1:].tolist() == wanted[:-1].tolist()
            assert source_position[source_segment == pair].tolist() == list(range(len(tokens)))
            assert position[segment == pair].tolist() == list(range(len(given)))
            found.append((tokens[:-1].tolist(), wanted[:-1].tolist()))
    return found


def stored(store: PairStore) -> Pairs:
    return sorted((a.tolist(), b.tolist()) for a, b in (store[i] for i in range(len(store))))


def all_pairs(batches: Iterable[PackedBatch]) -> Pairs:
    return sorted(pair for batch in batches for pair in pairs_in(batch))


def test_pairs_are_packed_into_their_rows():
    sources, targets = TokenSequences.of([[7, 8], [9], [5]]), TokenSequences.of([[6], [7, 7], [8]])
    batch = PackedBatch.pack(sources, targets, np.array([0, 0, 2]), count=3, row_length=6)
    assert batch.source.tolist() == [[7, 8, EOS, 9, EOS, PAD], [PAD] * 6, [5, EOS, PAD, PAD, PAD, PAD]]
    assert batch.source_segments.tolist() == [[1, 1, 1, 2, 2, 0], [0] * 6, [1, 1, 0, 0, 0, 0]]
    assert batch.source_positions.tolist() == [[0, 1, 2, 0, 1, 0], [0] * 6, [0, 1, 0, 0, 0, 0]]
    assert batch.inputs[0].tolist() == [BOS, 6, BOS, 7, 7, PAD]
    assert batch.labels[0].tolist() == [6, EOS, 7, 7, EOS, PAD]
    assert batch.target_segments[0].tolist() == [1, 1, 2, 2, 2, 0]
    assert batch.target_positions[0].tolist() == [0, 1, 0, 1, 2, 0]
    assert (batch.source_tokens, batch.tokens, len(batch)) == (7, 7, 3)
    assert batch.padding == pytest.approx(1 - 14 / 36)


@pytest.mark.parametrize("tokens", [64, 512, 4096])
@pytest.mark.parametrize(("ranks", "batches_per_step"), [(1, 1), (1, 3), (2, 2), (2, 4)])
def test_every_pair_comes_once_for_any_number_of_ranks(tokens: int, ranks: int, batches_per_step: int):
    store, config = make_store(500), BatchingConfig(tokens=tokens, row_length=64)
    shares = [
        list(PackedBatches(store, config, 1, Share(rank, ranks, batches_per_step)).epoch(0))
        for rank in range(ranks)
    ]
    assert all_pairs(batch for share in shares for batch in share) == stored(store)
    assert len({len(share) for share in shares}) == 1
    assert sum(map(len, shares)) % batches_per_step == 0


def test_all_ranks_together_have_the_batches_of_one_process():
    store, config = make_store(300), BatchingConfig(tokens=512)
    alone = list(PackedBatches(store, config, 1, Share(batches_per_step=2)).epoch(3))
    for skip in (0, 4):
        shares = [list(PackedBatches(store, config, 1, Share(rank, 2)).epoch(3, skip)) for rank in range(2)]
        merged = [batch for step in zip(*shares, strict=True) for batch in step]
        assert all((a.cells == b.cells).all() for a, b in zip(alone[skip:], merged, strict=True))


def test_an_epoch_can_resume_anywhere_and_epochs_differ():
    batches = PackedBatches(make_store(300), BatchingConfig(tokens=512), seed=1)
    whole = list(batches.epoch(0))
    for skip in (1, 5, len(whole)):
        assert all(
            (a.cells == b.cells).all() for a, b in zip(whole[skip:], batches.epoch(0, skip), strict=True)
        )
    assert not (whole[0].cells == next(batches.epoch(1)).cells).all()


def test_chunks_of_a_large_store_are_joined_without_loss(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("clearhead.data.batching.packing.CHUNK", 70)
    store = make_store(400)
    made = list(PackedBatches(store, BatchingConfig(tokens=1024), seed=1).epoch(0))
    assert all_pairs(made) == stored(store)
    # Only the last batch may have empty rows.
    assert sorted(batch.padding for batch in made)[len(made) // 2] < 0.25


def test_rows_are_nearly_full_if_both_sides_have_similar_lengths():
    random = np.random.default_rng(0)
    lengths = np.clip(random.gamma(4, 2.5, 20_000), 1, 90).astype(int)
    other = np.clip(lengths + random.integers(-2, 3, len(lengths)), 1, 90)
    store = PairStore.of([[5] * n for n in lengths], [[6] * n for n in other])
    paddings = [batch.padding for batch in PackedBatches(store, BatchingConfig(tokens=8192), 1).epoch(0)]
    assert sorted(paddings)[len(paddings) // 2] < 0.04


def test_long_pairs_get_longer_rows_filled_up_with_others():
    short, long = [[5] * 9] * 400, [[6] * 200] * 3
    store = PairStore.of(short + long, short + long)
    made = list(PackedBatches(store, BatchingConfig(tokens=1024), seed=1).epoch(0))
    assert {batch.cells.shape[1:] for batch in made} == {(8, 128), (4, 256)}
    (wide,) = [batch for batch in made if batch.cells.shape[2] == 256]
    assert len(pairs_in(wide)) > 3
    assert all_pairs(made) == stored(store)


def test_changed_ids_are_packed_by_their_own_lengths():
    store = make_store(50, max_length=10)

    def twice(epoch: int, rows: np.ndarray) -> tuple[TokenSequences, TokenSequences]:
        return TokenSequences.of([[*store.source[r], *store.source[r]] for r in rows]), store.target.gather(
            rows
        )

    made = list(PackedBatches(store, BatchingConfig(tokens=256), seed=1, encode=twice).epoch(0))
    doubled = [([*a.tolist(), *a.tolist()], b.tolist()) for a, b in (store[i] for i in range(50))]
    assert all_pairs(made) == sorted(doubled)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60), st.integers(1, 9)
)
def test_no_row_overflows(lengths: list[tuple[int, int]], count: int):
    sources, targets = np.array(lengths, dtype=np.int32).T
    rows = assign_rows(sources, targets, count, row_length=30)
    for row in range(count):
        assert sources[rows == row].sum() <= 30
        assert targets[rows == row].sum() <= 30
    assert (rows >= 0).any()
