"""Gradients of an embedding lookup are summed as in torch, and each time the same."""

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize(
    ("count", "vocabulary"),
    [(300, 7), (300, 2000), (64, 1), (33, 3), (1, 5)],
    ids=["long", "short", "one token", "over the end", "one position"],
)
def test_gradients_of_equal_tokens_are_summed(device, count, vocabulary):
    from clearhead.accel.kernels.embedding import look_up

    torch.manual_seed(0)
    tokens = torch.randint(vocabulary, (1, count), device=device)
    weight = torch.randn(vocabulary, 24, device=device, requires_grad=True)
    gradient = torch.randn(1, count, 24, device=device)
    ours, theirs = look_up(tokens, weight), F.embedding(tokens, weight)
    assert torch.equal(ours, theirs)
    (mine,), (other,) = (torch.autograd.grad(out, weight, gradient) for out in (ours, theirs))
    torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)
    again = torch.autograd.grad(look_up(tokens, weight), weight, gradient)
    assert torch.equal(mine, again[0])


def test_tokens_that_fill_whole_spans_are_summed_once(device):
    from clearhead.accel.kernels.embedding import SPAN, look_up

    counts = [SPAN, 2 * SPAN, SPAN - 1, 1, 3 * SPAN + 5, 2]
    tokens = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).to(device)
    weight = torch.zeros(len(counts) + 1, 8, device=device, requires_grad=True)
    look_up(tokens[None], weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad[:, 0].tolist() == [*counts, 0]


def test_sums_are_as_exact_as_the_gradients(device):
    from clearhead.accel.kernels.embedding import look_up

    torch.manual_seed(0)
    tokens = torch.randint(3, (2, 50), device=device, dtype=torch.int32)
    weight = torch.randn(3, 20, device=device, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(2, 50, 20, device=device, dtype=torch.float64)
    mine, other = (
        torch.autograd.grad(way(tokens, weight), weight, gradient) for way in (look_up, F.embedding)
    )
    torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)
