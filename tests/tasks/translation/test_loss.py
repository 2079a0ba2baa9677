"""The loss of a translator: the same for every layout, with both views of a sentence in one batch."""

import numpy as np
import pytest
import torch

from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.data.store import Side
from clearhead.layers.layout import Packed, Padded
from clearhead.models import Translator, TranslatorConfig
from clearhead.tasks.translation.task import TranslationLoss, layout, translation_loss
from clearhead.text.tokenizer import END, PAD, START
from clearhead.training import Criterion, RDropConfig, SimCutConfig

SOURCES, TARGETS = [[7, 8, 9], [6], [5, 9, 9, 9]], [[8, 9], [7, 6, 5, 5], [10]]
VOCABULARY, FIRST_WORD = 11, 5


def padded() -> PairBatch:
    return PairBatch.of(SOURCES, TARGETS)


def packed() -> PackedBatch:
    return PackedBatch.lay(Side.of(SOURCES), Side.of(TARGETS), np.array([0, 0, 1]), count=2, row_length=10)


def model(dropout: float = 0.0) -> Translator:
    torch.manual_seed(1)
    config = TranslatorConfig(
        width=16, ffn_width=32, encoder_layers=1, decoder_layers=1, dropout=dropout, max_length=12
    )
    return Translator(config, VOCABULARY).double()


def gradients(loss, translator, batch):
    total = loss(translator, batch)
    return total, torch.autograd.grad(total, list(translator.parameters()))


@pytest.mark.parametrize("batch", [padded, packed])
@pytest.mark.parametrize("regulariser", [RDropConfig(), SimCutConfig(cut=0.0)])
def test_views_that_do_not_differ_give_the_plain_loss_and_gradient(batch, regulariser):
    loss = TranslationLoss(Criterion(0.1, regulariser))
    translator = model()
    plain = gradients(lambda *given: translation_loss(*given, label_smoothing=0.1), translator, batch())
    torch.testing.assert_close(gradients(loss, translator, batch()), plain)


@pytest.mark.parametrize("batch", [padded, packed])
def test_one_pass_over_both_views_equals_two_passes(batch):
    criterion = Criterion(0.1, SimCutConfig(cut=0.4))
    loss, given, translator = TranslationLoss(criterion, FIRST_WORD), batch(), model()

    torch.manual_seed(2)
    batches_per_step = gradients(loss, translator, given)
    torch.manual_seed(2)
    words = [(side, loss._cut(side, 0.4)) for side in (given.source, given.inputs)]
    assert any((whole != cut).any() for whole, cut in words)

    def apart(translator, batch):
        logits = [translator(source, layout(batch), inputs) for source, inputs in zip(*words, strict=True)]
        losses, _ = Criterion.fused(criterion, [one.flatten(0, 1) for one in logits], batch.labels.flatten())
        return losses.sum()

    torch.testing.assert_close(batches_per_step, gradients(apart, translator, given))


def test_with_dropout_two_views_differ():
    translator = model(dropout=0.3).train()
    losses = [
        TranslationLoss(Criterion(0.1, RDropConfig(weight=a)))(translator, padded()) for a in (0.0, 9.0)
    ]
    assert losses[1].item() > losses[0].item()


def test_neither_signs_nor_padding_are_cut_and_words_are_as_often_as_asked():
    words = torch.tensor([PAD, START, END, 4, 5, 10]).repeat(4000, 1)
    cut = TranslationLoss(Criterion(), FIRST_WORD)._cut(words, 0.3)
    assert (cut[:, :4] == words[:, :4]).all()
    shares = (cut[:, 4:] == PAD).float().mean(0)
    torch.testing.assert_close(shares, torch.full((2,), 0.3), atol=0.03, rtol=0)
    assert set(cut[:, 4].tolist()) == {PAD, 5}


def test_a_layout_comes_several_times_below_itself():
    twice = layout(padded(), 2)
    assert isinstance(twice, Padded)
    assert twice.lengths.tolist() == [4, 2, 5] * 2
    twice, once = layout(packed(), 2), layout(packed())
    assert isinstance(twice, Packed)
    assert isinstance(once, Packed)
    for name in ("source_segments", "source_positions", "target_segments", "target_positions"):
        assert torch.equal(getattr(twice, name), torch.cat([getattr(once, name)] * 2))


@pytest.mark.parametrize("batch", [padded, packed])
@pytest.mark.parametrize("regulariser", [None, SimCutConfig(cut=0.0)])
def test_a_teacher_that_is_the_model_itself_leaves_the_loss_without_its_uncertainty(batch, regulariser):
    translator, given = model(), batch()
    loss = TranslationLoss(Criterion(0.0, regulariser, taught=1.0), teacher=model().requires_grad_(False))
    total, found = gradients(loss, translator, given)
    torch.testing.assert_close(total, torch.zeros_like(total))
    assert all(gradient.abs().max() < 1e-12 for gradient in found)
