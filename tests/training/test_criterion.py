"""Losses and slopes of rows of logits equal torch's, in both ways of computing them."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.training.criterion import Criterion

VOCABULARY = 11


def rows(dtype=torch.float64, scale=1.0):
    torch.manual_seed(3)
    logits = torch.randn(7, VOCABULARY, dtype=dtype) * scale
    labels = torch.randint(1, VOCABULARY, (7,))
    return logits, labels


def reference(logits, labels, smoothing):
    """The losses by torch, and the gradient of their sum."""
    logits = logits.clone().requires_grad_()
    losses = F.cross_entropy(logits, labels, ignore_index=0, label_smoothing=smoothing, reduction="none")
    (slopes,) = torch.autograd.grad(losses.sum(), logits)
    return losses.detach(), slopes


@pytest.mark.parametrize("way", ["fused", "sparing"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["common", "improbable labels"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_and_slopes_equal_those_of_torch(way, smoothing, scale, dtype):
    logits, labels = rows(dtype, scale)
    expected = reference(logits, labels, smoothing)
    torch.testing.assert_close(getattr(Criterion(smoothing), way)(logits, labels), expected)


def test_padding_has_neither_loss_nor_slope():
    logits, labels = rows()
    labels[2:5] = 0
    losses, slopes = Criterion(0.1).fused(logits, labels)
    torch.testing.assert_close((losses, slopes), reference(logits, labels, 0.1))
    assert not losses[2:5].any()
    assert not slopes[2:5].any()


@pytest.mark.parametrize("way", ["fused", "sparing"])
def test_slopes_of_narrow_logits_are_narrow_and_losses_are_not(way):
    logits, labels = rows(torch.bfloat16)
    losses, slopes = getattr(Criterion(0.1), way)(logits, labels)
    expected = Criterion(0.1).fused(logits.float(), labels)
    torch.testing.assert_close(losses, expected[0])
    torch.testing.assert_close(slopes, expected[1].bfloat16())


def test_the_fused_way_is_one_graph_for_any_number_of_rows():
    """What is compiled may neither ask for a value nor depend on one."""
    compiled = torch.compile(Criterion(0.1).fused, backend="eager", fullgraph=True)
    logits, labels = rows()
    for count in (7, 5, 3):
        result = compiled(logits[:count], labels[:count])
        torch.testing.assert_close(result, Criterion(0.1).fused(logits[:count], labels[:count]))
