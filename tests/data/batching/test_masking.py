"""What is hidden in a text: how much, where, and reproducibly."""

import numpy as np
import pytest
import torch

from clearhead.config import parse_settings
from clearhead.data.batch import IGNORE_INDEX, TextBatch
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.batching.masking import MaskedBatch, MaskedTexts, Masking, MaskingConfig
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.store import TextStore
from clearhead.errors import SettingsError
from clearhead.text.tokenizer import BOS, EOS

SIZE, MASK_ID = 50, 4
CONFIG = TextBatchingConfig(tokens=128, kind="packed", row_length=32)


def documents(count: int = 60) -> DelimitedDocuments:
    random = np.random.default_rng(0)
    ids = [random.integers(5, SIZE, size=random.integers(1, 70)).tolist() for _ in range(count)]
    return DelimitedDocuments(TextStore.of(ids), (BOS, EOS))


def masking(**settings) -> Masking:
    return Masking(MaskingConfig(**settings), MASK_ID, np.arange(SIZE) >= 5)


def texts(share: Share = SINGLE, seed: int = 0, **settings) -> MaskedTexts:
    return MaskedTexts(documents(), CONFIG, masking(**settings), seed, share)


def restored(batch: MaskedBatch) -> torch.Tensor:
    """The ids before some were hidden."""
    ids = batch.inputs.clone()
    rows, slots = (batch.labels != IGNORE_INDEX).nonzero(as_tuple=True)
    ids[rows, batch.columns[rows, slots].long()] = batch.labels[rows, slots]
    return ids


def test_every_token_comes_once_per_epoch_and_is_kept_or_a_label():
    found = [
        row[segments == number].tolist()
        for batch in texts().epoch(0)
        for row, segments in zip(restored(batch), batch.segments, strict=True)
        for number in range(1, int(segments.max()) + 1)
    ]
    whole = documents()
    wanted = np.concatenate([whole.tokens(np.full(n, i), np.arange(n)) for i, n in enumerate(whole.lengths)])
    assert sorted(token for span in found for token in span) == sorted(wanted.tolist())
    # Spans start with <s>, or are a later part of a document.
    assert sum(span[0] == BOS for span in found) == len(whole)


def test_the_share_of_hidden_tokens_is_the_configured_one_and_special_tokens_stay():
    batches = list(texts().epoch(0))
    assert {batch.hidden.shape for batch in batches} == {(2, 4, round(0.3 * 32))}
    for batch in batches:
        hidden = batch.inputs == MASK_ID
        assert int(hidden.sum()) == batch.tokens
        whole = restored(batch)
        assert (whole[hidden] >= 5).all()
        # The first token of a span has none before it, by which it could be predicted.
        open_ = (whole >= 5) & (batch.positions > 0)
        assert not (hidden & ~open_).any()
        counts = open_.sum(1)
        assert (hidden.sum(1) - (0.3 * counts).round().clamp(min=counts.clamp(max=1))).abs().max() <= 1


def test_masks_depend_on_seed_epoch_and_position_alone():
    def epoch(number: int, skip: int = 0, **more) -> list[torch.Tensor]:
        return [batch.hidden for batch in texts(**more).epoch(number, skip)]

    first = epoch(0)
    assert all(map(torch.equal, first, epoch(0)))
    assert all(map(torch.equal, first[3:], epoch(0, skip=3)))
    assert not all(map(torch.equal, first, epoch(1)))
    assert not all(map(torch.equal, first, epoch(0, seed=1)))
    halves = [epoch(0, share=Share(rank, 2, 2)) for rank in range(2)]
    both = [batch for pair in zip(*halves, strict=True) for batch in pair]
    assert all(map(torch.equal, first[: len(first) // 2], both))


def test_a_part_becomes_random_tokens_and_a_part_stays():
    ids = np.full((40, 100), 7, dtype=np.int32)
    parts = masking(share=0.5, random=0.2, kept=0.3)
    hidden = parts.hide(ids, np.ones_like(ids, dtype=bool), np.random.default_rng(0))
    replaced = np.take_along_axis(ids, hidden[0], 1)
    assert (hidden[1] == 7).all()
    assert (replaced == MASK_ID).mean() == pytest.approx(0.5, abs=0.05)
    assert (replaced == 7).mean() == pytest.approx(0.3, abs=0.05)
    assert replaced[(replaced != 7) & (replaced != MASK_ID)].min() >= 5


def test_a_row_with_a_single_word_has_it_hidden_and_an_empty_row_nothing():
    ids = np.array([[2, 9, 3, 0], [0, 0, 0, 0]], dtype=np.int32)
    columns, labels = masking().hide(ids, np.arange(4) > np.array([[0], [4]]), np.random.default_rng(0))
    assert columns[0, 0] == 1
    assert labels.tolist() == [[9], [IGNORE_INDEX]]
    assert ids.tolist() == [[2, MASK_ID, 3, 0], [0, 0, 0, 0]]


def test_a_batch_splits_by_rows():
    batch = next(texts().epoch(0))
    first, second = batch.split(2)
    assert torch.equal(torch.cat([first.inputs, second.inputs]), batch.inputs)
    assert first.tokens + second.tokens == batch.tokens


def test_causal_batches_are_spread_evenly_and_label_every_token_but_the_first():
    batches = list(texts(causal=0.25).epoch(0))
    causal = [isinstance(batch, TextBatch) for batch in batches]
    first = causal.index(True)
    assert causal == [number % 4 == first for number in range(len(causal))]
    starts = [isinstance(next(texts(causal=0.25).epoch(epoch)), TextBatch) for epoch in range(200)]
    assert sum(starts) == pytest.approx(50, abs=15)
    for batch in (batch for batch in batches if isinstance(batch, TextBatch)):
        inside = batch.documents > 0
        assert torch.equal(inside, batch.labels != IGNORE_INDEX)
        assert not (batch.inputs == EOS).any()
        following = batch.documents[:, 1:] == batch.documents[:, :-1]
        same = (batch.inputs[:, 1:] == batch.labels[:, :-1]) | ~following | ~inside[:, 1:]
        assert same.all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, "share: 0.0 should be greater than 0"),
        ({"share": 1.0}, "share: 1.0 should be less than 1"),
        ({"random": 0.6, "kept": 0.6}, "random 0.6 and kept 0.6 add up to more than 1"),
    ],
)
def test_impossible_masking_is_refused(settings: dict[str, float], message: str):
    with pytest.raises(SettingsError, match=message):
        parse_settings(MaskingConfig, settings)
