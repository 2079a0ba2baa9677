"""Batches hold every pair once, in any number of ranks, with little padding."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.batch import PairBatch
from clearhead.data.batching.buckets import Batches, BatchingConfig, cuts, plan
from clearhead.data.download import get_dataset
from clearhead.data.sources.corpus import Pair, read_pairs
from clearhead.data.store import PairStore, Side
from clearhead.errors import DataError
from clearhead.text.tokenizer import END, PAD, START, Tokenizer, TokenizerConfig


def random_store(count: int = 700, max_length: int = 30, seed: int = 0) -> PairStore:
    random = np.random.default_rng(seed)
    sides = [
        [random.integers(4, 99, size=n).tolist() for n in random.integers(1, max_length, count)] for _ in "st"
    ]
    return PairStore.of(*sides)


def test_a_whole_batch_has_the_padding_that_its_plan_has():
    store = random_store()
    config = BatchingConfig(tokens=300)
    for batch, rows in zip(
        Batches(store, config, 2).epoch(1), plan(*store.lengths, config, (2, 1)), strict=True
    ):
        assert batch.source.shape == (len(rows), store.lengths[0][rows].max() + 1)
        assert batch.labels.shape == (len(rows), store.lengths[1][rows].max() + 1)


def same(first: PairBatch, second: PairBatch) -> bool:
    return torch.equal(first.source, second.source) and torch.equal(first.target, second.target)


def sentences(batches) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [
        (tuple(source[: n - 1].tolist()), tuple(target[1 : m - 1].tolist()))
        for batch in batches
        for source, n, target, m in zip(
            batch.source, batch.source_lengths, batch.target, batch.target_lengths, strict=True
        )
    ]


def test_a_batch_has_signs_padding_lengths_and_counts():
    batch = PairBatch.of([[5], [6, 7, 8]], [[9, 10], [11]])
    assert batch.source.tolist() == [[5, END, PAD, PAD], [6, 7, 8, END]]
    assert batch.target.tolist() == [[START, 9, 10, END], [START, 11, END, PAD]]
    assert batch.inputs.tolist() == [[START, 9, 10], [START, 11, END]]
    assert batch.labels.tolist() == [[9, 10, END], [11, END, PAD]]
    assert (batch.source_lengths.tolist(), batch.target_lengths.tolist()) == ([2, 4], [4, 3])
    assert (len(batch), batch.tokens, batch.source_tokens) == (2, 5, 6)
    assert batch.tokens == int((batch.labels != PAD).sum())
    assert batch.padding == pytest.approx(3 / 14)
    assert same(batch.to("cpu"), batch)
    assert batch.to("meta").tokens == 5


def test_a_batch_made_of_tensors_counts_its_tokens():
    batch = PairBatch.of([[5], [6, 7, 8]], [[9, 10], [11]])
    again = PairBatch(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
    assert (again.tokens, again.padding) == (batch.tokens, batch.padding)


@settings(max_examples=60)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=5, max_size=150),
    tokens=st.integers(1, 300),
    window=st.integers(1, 200),
    ranks=st.integers(1, 5),
)
def test_ranks_share_every_pair_once_within_the_budget(lengths, tokens, window, ranks):
    sources, targets = np.array(lengths, dtype=np.int32).T
    batches = plan(sources, targets, BatchingConfig(tokens=tokens, window=window), (0, 0), ranks)
    rows = np.concatenate(batches)
    assert len(batches) % ranks == 0
    assert len(set(rows.tolist())) == len(rows)
    all_alone = all(len(batch) == 1 for batch in batches)
    assert len(rows) > len(lengths) - ranks if all_alone else len(rows) == len(lengths)
    for batch in batches:
        assert len(batch) > 0
        longer = max(sources[batch].max(), targets[batch].max()) + 1
        assert len(batch) == 1 or len(batch) * longer <= tokens


def test_ranks_together_see_what_one_rank_alone_sees():
    store, config = random_store(), BatchingConfig(tokens=300)
    alone = sentences(Batches(store, config, seed=3).epoch(1))
    shares = [list(Batches(store, config, 3, rank, 4).epoch(1)) for rank in range(4)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(sentences(itertools.chain(*shares))) == sorted(alone)
    assert len(alone) == len(store)


@pytest.mark.parametrize(("ranks", "batches_per_step"), [(1, 4), (2, 2), (2, 4), (4, 4)])
def test_the_ranks_share_each_step_of_one_process_from_anywhere_on(ranks, batches_per_step):
    store, config = random_store(), BatchingConfig(tokens=300)
    alone = list(Batches(store, config, 3, batches_per_step=batches_per_step).epoch(1))
    assert len(alone) % batches_per_step == 0
    for skip in (0, 3 * batches_per_step):
        shares = [
            Batches(store, config, 3, rank, ranks, batches_per_step).epoch(1, skip) for rank in range(ranks)
        ]
        mixed = [batch for step in zip(*shares, strict=True) for batch in step]
        assert all(itertools.starmap(same, zip(alone[skip:], mixed, strict=True)))


def test_epochs_are_the_same_for_the_same_seed_and_differ_otherwise():
    store, config = random_store(), BatchingConfig(tokens=300)
    first = sentences(Batches(store, config, seed=3).epoch(1))
    assert first == sentences(Batches(store, config, seed=3).epoch(1))
    assert first != sentences(Batches(store, config, seed=3).epoch(2))
    assert first != sentences(Batches(store, config, seed=4).epoch(1))
    sets = [
        {frozenset(rows.tolist()) for rows in plan(*store.lengths, config, (3, epoch))} for epoch in (1, 2)
    ]
    assert len(sets[0] & sets[1]) < len(sets[0]) / 4


def test_skipping_resumes_the_epoch_without_reading_what_is_skipped():
    store, config = random_store(), BatchingConfig(tokens=300)
    whole = list(Batches(store, config, 0, 1, 2).epoch(5))
    read = []

    def watched(epoch: int, rows) -> tuple[Side, Side]:
        read.append(len(rows))
        return store.source.gather(rows), store.target.gather(rows)

    batches = Batches(store, config, 0, 1, 2, encode=watched)
    rest = list(batches.epoch(5, skip=14))
    assert batches.count(5) == len(whole)
    assert len(rest) == len(read) == len(whole) - 7
    assert all(itertools.starmap(same, zip(whole[7:], rest, strict=True)))


def test_other_ids_may_be_given_for_an_epoch():
    store = random_store(20)

    def doubled(epoch: int, rows) -> tuple[Side, Side]:
        return Side.of([[epoch + 50] * 2 for _ in rows]), store.target.gather(rows)

    batches = list(Batches(store, BatchingConfig(tokens=100), 0, encode=doubled).epoch(3))
    assert {source for source, _ in sentences(batches)} == {(53, 53)}


def test_a_pair_beyond_the_budget_is_a_batch_of_its_own():
    assert cuts(np.array([3, 3, 50, 2, 2, 2]), 6) == [2, 3]


def test_too_few_pairs_for_the_ranks_are_refused():
    with pytest.raises(DataError, match="3 pairs cannot be shared among the 4 batches of a step"):
        Batches(random_store(3), BatchingConfig(), 0, 0, 4)


def padding(pairs: Sequence[Pair], tokens: int) -> float:
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.train(texts[::25], TokenizerConfig(vocabulary=8000))
    lengths = np.array([len(ids) for ids in tokenizer.encode_batch(texts)], dtype=np.int32)
    batches = plan(lengths[0::2], lengths[1::2], BatchingConfig(tokens=tokens), (0, 0))
    cells = sum(
        len(rows) * sum(side[rows].max() + 1 for side in (lengths[0::2], lengths[1::2])) for rows in batches
    )
    return 1 - (lengths.sum() + len(lengths)) / cells


def test_padding_stays_under_five_percent_on_tatoeba():
    pairs = list(read_pairs("tatoeba-en-de", ("en", "de")))
    assert padding(pairs[::4], tokens=4096) < 0.05


def test_padding_stays_under_five_percent_on_multi30k(measuring_data, monkeypatch, tmp_path):
    monkeypatch.setenv("CLEARHEAD_DATA", str(measuring_data))
    get_dataset("multi30k", tmp_path)
    pairs = list(read_pairs((tmp_path / "train.en", tmp_path / "train.de"), ("en", "de")))
    assert padding(pairs, tokens=4096) < 0.05
