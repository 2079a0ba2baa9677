"""Padded batches hold every pair once, for any number of ranks, with little padding."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.batch import PairBatch
from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches, cuts, plan
from clearhead.data.batching.plan import Share
from clearhead.data.download import get_dataset
from clearhead.data.sources.corpus import Pair, read_pairs
from clearhead.data.store import PairStore, TokenSequences
from clearhead.errors import DataError
from clearhead.text.tokenizer import BOS, EOS, PAD, Tokenizer, TokenizerConfig


def random_store(count: int = 700, max_length: int = 30, seed: int = 0) -> PairStore:
    random = np.random.default_rng(seed)
    sides = [
        [random.integers(4, 99, size=n).tolist() for n in random.integers(1, max_length, count)] for _ in "st"
    ]
    return PairStore.of(*sides)


def test_a_batch_is_padded_as_planned():
    store = random_store()
    config = BatchingConfig(tokens=300)
    for batch, rows in zip(
        PaddedBatches(store, config, 2).epoch(1),
        plan(*store.lengths, config, np.random.default_rng((2, 1))),
        strict=True,
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


def test_a_batch_has_special_tokens_padding_lengths_and_counts():
    batch = PairBatch.of([[5], [6, 7, 8]], [[9, 10], [11]])
    assert batch.source.tolist() == [[5, EOS, PAD, PAD], [6, 7, 8, EOS]]
    assert batch.target.tolist() == [[BOS, 9, 10, EOS], [BOS, 11, EOS, PAD]]
    assert batch.inputs.tolist() == [[BOS, 9, 10], [BOS, 11, EOS]]
    assert batch.labels.tolist() == [[9, 10, EOS], [11, EOS, PAD]]
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
    batches = plan(
        sources, targets, BatchingConfig(tokens=tokens, window=window), np.random.default_rng((0, 0)), ranks
    )
    rows = np.concatenate(batches)
    assert len(batches) % ranks == 0
    assert len(set(rows.tolist())) == len(rows)
    all_alone = all(len(batch) == 1 for batch in batches)
    assert len(rows) > len(lengths) - ranks if all_alone else len(rows) == len(lengths)
    for batch in batches:
        assert len(batch) > 0
        longer = max(sources[batch].max(), targets[batch].max()) + 1
        assert len(batch) == 1 or len(batch) * longer <= tokens


def test_all_ranks_together_see_what_one_rank_sees():
    store, config = random_store(), BatchingConfig(tokens=300)
    alone = sentences(PaddedBatches(store, config, seed=3).epoch(1))
    shares = [list(PaddedBatches(store, config, 3, Share(rank, 4)).epoch(1)) for rank in range(4)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(sentences(itertools.chain(*shares))) == sorted(alone)
    assert len(alone) == len(store)


@pytest.mark.parametrize(("ranks", "batches_per_step"), [(1, 4), (2, 2), (2, 4), (4, 4)])
def test_ranks_share_each_step_of_one_process_from_any_position(ranks, batches_per_step):
    store, config = random_store(), BatchingConfig(tokens=300)
    alone = list(PaddedBatches(store, config, 3, Share(batches_per_step=batches_per_step)).epoch(1))
    assert len(alone) % batches_per_step == 0
    for skip in (0, 3 * batches_per_step):
        shares = [
            PaddedBatches(store, config, 3, Share(rank, ranks, batches_per_step)).epoch(1, skip)
            for rank in range(ranks)
        ]
        merged = [batch for step in zip(*shares, strict=True) for batch in step]
        assert all(itertools.starmap(same, zip(alone[skip:], merged, strict=True)))


def test_epochs_depend_on_seed_and_number_only():
    store, config = random_store(), BatchingConfig(tokens=300)
    first = sentences(PaddedBatches(store, config, seed=3).epoch(1))
    assert first == sentences(PaddedBatches(store, config, seed=3).epoch(1))
    assert first != sentences(PaddedBatches(store, config, seed=3).epoch(2))
    assert first != sentences(PaddedBatches(store, config, seed=4).epoch(1))
    sets = [
        {frozenset(rows.tolist()) for rows in plan(*store.lengths, config, np.random.default_rng((3, epoch)))}
        for epoch in (1, 2)
    ]
    assert len(sets[0] & sets[1]) < len(sets[0]) / 4


def test_skipped_batches_are_not_read():
    store, config = random_store(), BatchingConfig(tokens=300)
    whole = list(PaddedBatches(store, config, 0, Share(1, 2)).epoch(5))
    read = []

    def recorded(epoch: int, rows) -> tuple[TokenSequences, TokenSequences]:
        read.append(len(rows))
        return store.source.gather(rows), store.target.gather(rows)

    batches = PaddedBatches(store, config, 0, Share(1, 2), encode=recorded)
    rest = list(batches.epoch(5, skip=14))
    assert batches.count(5) == len(whole)
    assert len(rest) == len(read) == len(whole) - 7
    assert all(itertools.starmap(same, zip(whole[7:], rest, strict=True)))


def test_ids_may_change_from_epoch_to_epoch():
    store = random_store(20)

    def doubled(epoch: int, rows) -> tuple[TokenSequences, TokenSequences]:
        return TokenSequences.of([[epoch + 50] * 2 for _ in rows]), store.target.gather(rows)

    batches = list(PaddedBatches(store, BatchingConfig(tokens=100), 0, encode=doubled).epoch(3))
    assert {source for source, _ in sentences(batches)} == {(53, 53)}


def test_a_pair_beyond_the_budget_is_a_batch_alone():
    assert cuts(np.array([3, 3, 50, 2, 2, 2]), 6) == [2, 3]


def test_too_few_pairs_for_the_ranks_are_rejected():
    with pytest.raises(DataError, match="3 pairs cannot fill the 4 batches of a step"):
        PaddedBatches(random_store(3), BatchingConfig(), 0, Share(0, 4))


def padding(pairs: Sequence[Pair], tokens: int) -> float:
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.train(texts[::25], TokenizerConfig(vocabulary=8000))
    lengths = np.array([len(ids) for ids in tokenizer.encode_batch(texts)], dtype=np.int32)
    batches = plan(lengths[0::2], lengths[1::2], BatchingConfig(tokens=tokens), np.random.default_rng((0, 0)))
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
