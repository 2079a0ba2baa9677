"""The translation loss: equal for every layout, with both views of a sentence in one batch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.data.store import TokenSequences
from clearhead.layers.layout import Packed, Padded
from clearhead.models import Translator, TranslatorConfig
from clearhead.tasks.translation.task import TranslationLoss, layout, translation_loss
from clearhead.text.tokenizer import BOS, EOS, PAD
from clearhead.training import Criterion, RDropConfig, SimCutConfig

SOURCES, TARGETS = [[7, 8, 9], [6], [5, 9, 9, 9]], [[8, 9], [7, 6, 5, 5], [10]]
VOCABULARY, FIRST_TOKEN = 11, 5


def padded() -> PairBatch:
    return PairBatch.of(SOURCES, TARGETS)


def packed() -> PackedBatch:
    return PackedBatch.pack(
        TokenSequences.of(SOURCES), TokenSequences.of(TARGETS), np.array([0, 0, 1]), count=2, row_length=10
    )


def model(dropout: float = 0.0, **settings: object) -> Translator:
    torch.manual_seed(1)
    small = {"width": 16, "ffn_width": 32, "encoder_layers": 1, "decoder_layers": 1, "max_length": 12}
    config = TranslatorConfig.model_validate({**small, "dropout": dropout, **settings})
    return Translator(config, VOCABULARY).double()


def test_the_loss_is_that_of_the_logits_with_their_bias():
    translator, batch = model(readout_bias="learned"), padded()
    assert translator.readout_bias is not None
    translator.readout_bias.data.normal_()
    logits = translator(batch.source, layout(batch), batch.inputs)
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, reduction="sum"
    )
    torch.testing.assert_close(translation_loss(translator, batch), expected)


def gradients(loss, translator, batch):
    total = loss(translator, batch)
    return total, torch.autograd.grad(total, list(translator.parameters()))


@pytest.mark.parametrize("batch", [padded, packed])
@pytest.mark.parametrize("regulariser", [RDropConfig(), SimCutConfig(cut=0.0)])
def test_equal_views_give_the_plain_loss_and_gradient(batch, regulariser):
    loss = TranslationLoss(Criterion(0.1, regulariser))
    translator = model()
    plain = gradients(lambda *given: translation_loss(*given, label_smoothing=0.1), translator, batch())
    torch.testing.assert_close(gradients(loss, translator, batch()), plain)


@pytest.mark.parametrize("batch", [padded, packed])
def test_one_pass_over_both_views_equals_two_passes(batch):
    criterion = Criterion(0.1, SimCutConfig(cut=0.4))
    loss, given, translator = TranslationLoss(criterion, FIRST_TOKEN), batch(), model()

    torch.manual_seed(2)
    one_pass = gradients(loss, translator, given)
    torch.manual_seed(2)
    views = [(side, loss._cut(side, 0.4)) for side in (given.source, given.inputs)]
    assert any((whole != cut).any() for whole, cut in views)

    def two_passes(translator, batch):
        logits = [translator(source, layout(batch), inputs) for source, inputs in zip(*views, strict=True)]
        losses, _ = Criterion.fused(criterion, [one.flatten(0, 1) for one in logits], batch.labels.flatten())
        return losses.sum()

    torch.testing.assert_close(one_pass, gradients(two_passes, translator, given))


def test_dropout_makes_the_views_differ():
    translator = model(dropout=0.3).train()
    losses = [
        TranslationLoss(Criterion(0.1, RDropConfig(weight=weight)))(translator, padded())
        for weight in (0.0, 9.0)
    ]
    assert losses[1].item() > losses[0].item()


def test_only_text_tokens_are_cut_at_the_configured_rate():
    tokens = torch.tensor([PAD, BOS, EOS, 4, 5, 10]).repeat(4000, 1)
    cut = TranslationLoss(Criterion(), FIRST_TOKEN)._cut(tokens, 0.3)
    assert (cut[:, :4] == tokens[:, :4]).all()
    shares = (cut[:, 4:] == PAD).float().mean(0)
    torch.testing.assert_close(shares, torch.full((2,), 0.3), atol=0.03, rtol=0)
    assert set(cut[:, 4].tolist()) == {PAD, 5}


def test_tokens_added_to_the_vocabulary_are_never_cut():
    tokens = torch.arange(FIRST_TOKEN, FIRST_TOKEN + 40).repeat(50, 1)
    added = (FIRST_TOKEN + 7, FIRST_TOKEN + 39)
    cut = TranslationLoss(Criterion(), FIRST_TOKEN, added)._cut(tokens, 0.9)
    assert [int((cut == token).sum()) for token in added] == [50, 50]
    assert (cut == PAD).float().mean() > 0.8


def test_a_layout_can_be_repeated_along_the_batch():
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
def test_distilling_a_model_from_itself_has_zero_loss_and_gradient(batch, regulariser):
    translator, given = model(), batch()
    loss = TranslationLoss(
        Criterion(0.0, regulariser, teacher_weight=1.0), teacher=model().requires_grad_(False)
    )
    total, found = gradients(loss, translator, given)
    torch.testing.assert_close(total, torch.zeros_like(total))
    assert all(gradient.abs().max() < 1e-12 for gradient in found)
