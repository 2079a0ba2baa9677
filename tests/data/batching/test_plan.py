"""All kinds of batches share one epoch, rank and resume logic, and their batches never change."""

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch

from clearhead.data.batch import TensorBatch
from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.data.batching.crops import Crops, PackedTexts, TextBatchingConfig
from clearhead.data.batching.packing import PackedBatches
from clearhead.data.batching.plan import PlannedBatches, Share, whole_steps
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.store import PairStore, TextStore

RANDOM = np.random.default_rng(7)


def sequences(count: int) -> list[list[int]]:
    return [RANDOM.integers(4, 99, size=size).tolist() for size in RANDOM.integers(1, 40, count)]


PAIRS = PairStore.of(sequences(400), sequences(400))
TEXTS = DelimitedDocuments(TextStore.of(sequences(300)), (2, 3))
CONFIG = BatchingConfig(tokens=300, row_length=64, window=150)
TEXT_CONFIG = TextBatchingConfig(tokens=128, row_length=16)
KINDS: dict[str, Callable[[Share], PlannedBatches]] = {
    "padded": lambda share: PaddedBatches(PAIRS, CONFIG, 3, share),
    "packed": lambda share: PackedBatches(PAIRS, CONFIG, 3, share),
    "packed texts": lambda share: PackedTexts(TEXTS, TEXT_CONFIG, 3, share),
    "crops": lambda share: Crops(TEXTS, TEXT_CONFIG, 3, share),
}
# Recorded before the kinds shared their planning code: a run must resume with the batches it started with.
EPOCHS = {
    "padded": "70afba384ef118ea",
    "packed": "19f9ac90c7767248",
    "packed texts": "034f72563ba944f2",
    "crops": "67256dcb9d20a3e0",
}
SEQUENTIAL = {"packed texts": "fbc7efe482262265", "crops": "bd19ceba38b2c823"}


def digest(batches: Iterable[TensorBatch]) -> str:
    found = hashlib.sha256()
    for batch in batches:
        for tensor in vars(batch).values():
            if isinstance(tensor, torch.Tensor):
                found.update(str(tuple(tensor.shape)).encode() + tensor.numpy().tobytes())
        found.update(f"{batch.tokens} {batch.padding:.6f}".encode())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_bit_identical_to_recorded_ones(kind):
    shares = (Share(0, 1, 1), Share(0, 2, 4), Share(1, 2, 4))
    assert EPOCHS[kind] == digest(
        batch
        for epoch in (0, 1, 5)
        for share in shares
        for skip in (0, 4)
        for batch in KINDS[kind](share).epoch(epoch, skip)
    )


@pytest.mark.parametrize("batches", [PackedTexts(TEXTS, TEXT_CONFIG, 3), Crops(TEXTS, TEXT_CONFIG, 3)])
def test_sequential_batches_are_bit_identical_to_recorded_ones(batches):
    assert (
        digest(batches.sequential()) == SEQUENTIAL["crops" if isinstance(batches, Crops) else "packed texts"]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_share_an_epoch_that_can_resume_anywhere(kind):
    alone = [batch.inputs.tolist() for batch in KINDS[kind](Share(batches_per_step=4)).epoch(2)]
    assert len(alone) % 4 == 0
    for rank in (0, 1):
        share = KINDS[kind](Share(rank, 2, 4)).epoch(2, skip=8)
        assert [batch.inputs.tolist() for batch in share] == alone[8 + rank :: 2]


def test_a_share_has_one_batch_per_rank_in_a_step_by_default():
    assert Share(1, 3).batches_per_step == 3
    assert list(Share(1, 3).of(range(12), skip=3)) == [4, 7, 10]


def test_the_last_step_is_filled_by_dividing_a_plan():
    def divide(text: str, parts: int) -> list[str]:
        return [text[part::parts] for part in range(parts)]

    assert list(whole_steps(["ab", "cd", "efgh", "i"], 3, divide)) == ["ab", "cd", "efgh", "i", "", ""]
    assert list(whole_steps(["ab", "cd"], 2, divide)) == ["ab", "cd"]
