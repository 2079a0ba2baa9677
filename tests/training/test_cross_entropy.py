"""The chunked loss equals torch's in value and gradients, whatever the size of the chunks."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.accel import kernels
from clearhead.training import Readout, chunked_cross_entropy, cross_entropy_loss
from clearhead.training import cross_entropy as module
from clearhead.training.criterion import Criterion, RDropConfig, SimCutConfig

WIDTH, VOCABULARY = 6, 11


@pytest.fixture(params=[4, 1 << 22], ids=["chunks of one row", "one chunk"])
def chunks(request, monkeypatch):
    monkeypatch.setattr(module, "_chunk_size", lambda device: request.param)


def problem(dtype=torch.float32, scale=1.0):
    torch.manual_seed(5)
    states = (torch.randn(4, 5, WIDTH, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH, dtype=dtype).requires_grad_()
    bias = torch.randn(VOCABULARY, dtype=dtype).requires_grad_()
    labels = torch.randint(1, VOCABULARY, (4, 5))
    labels[1, 3:] = 0
    labels[2, 1:] = 0
    return states, weight, bias, labels


def reference(states, weight, bias, labels, label_smoothing) -> Tensor:
    logits = F.linear(states, weight, bias).flatten(0, 1)
    return F.cross_entropy(
        logits, labels.flatten(), ignore_index=0, label_smoothing=label_smoothing, reduction="sum"
    )


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradients_equal_those_of_torch(label_smoothing, with_bias, dtype):
    states, weight, bias, labels = problem(dtype)
    inputs = [states, weight, bias] if with_bias else [states, weight]
    expected = reference(states, weight, bias if with_bias else None, labels, label_smoothing)
    total = cross_entropy_loss(states, weight, labels, label_smoothing, bias if with_bias else None)
    torch.testing.assert_close(total, expected)
    ours, theirs = torch.autograd.grad(total * 3, inputs), torch.autograd.grad(expected * 3, inputs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.usefixtures("chunks")
def test_gradients_pass_the_numerical_check():
    states, weight, bias, labels = problem(torch.float64)
    assert torch.autograd.gradcheck(
        lambda *inputs: cross_entropy_loss(inputs[0], inputs[1], labels, 0.1, inputs[2]),
        (states, weight, bias),
    )


def test_a_tied_weight_gets_both_gradients():
    _, weight, _, labels = problem()

    def gradient(loss):
        states = F.embedding(labels, weight).tanh()
        return torch.autograd.grad(loss(states), weight)[0]

    ours = gradient(lambda states: cross_entropy_loss(states, weight, labels, 0.1))
    theirs = gradient(lambda states: reference(states, weight, None, labels, 0.1))
    torch.testing.assert_close(ours, theirs)


def test_an_improbable_label_has_a_finite_loss():
    states, weight, _, labels = problem(scale=300.0)
    total = cross_entropy_loss(states, weight, labels)
    assert total.isfinite()
    torch.testing.assert_close(total, reference(states, weight, None, labels, 0.0))


def test_padding_neither_counts_nor_gets_a_gradient():
    states, weight, _, labels = problem()
    total = cross_entropy_loss(states, weight, labels, 0.1)
    total.backward()
    assert states.grad is not None
    assert not states.grad[labels == 0].any()
    assert states.grad[labels != 0].all()


def test_evaluation_gives_the_same_value_and_computes_no_gradients(monkeypatch):
    states, weight, bias, labels = problem()
    learning = cross_entropy_loss(states, weight, labels, 0.1, bias)
    monkeypatch.setattr(module, "_Gradients", None)
    with torch.no_grad():
        total = cross_entropy_loss(states, weight, labels, 0.1, bias)
    assert not total.requires_grad
    assert total == learning


def test_under_autocast_products_are_narrow_and_the_sum_is_not():
    states, weight, bias, labels = problem()
    expected = reference(states, weight, bias, labels, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        total = cross_entropy_loss(states.bfloat16(), weight, labels, 0.1, bias)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total, expected, rtol=0.02, atol=0.02)
    (ours,) = torch.autograd.grad(total, weight)
    (theirs,) = torch.autograd.grad(expected, weight)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)


def test_frozen_weights_get_no_gradient():
    states, weight, _, labels = problem()
    total = cross_entropy_loss(states, weight.detach(), labels)
    total.backward()
    assert states.grad is not None
    assert weight.grad is None


def test_a_batch_of_only_padding_has_no_loss():
    states, weight, _, labels = problem()
    total = cross_entropy_loss(states, weight, torch.zeros_like(labels), 0.1)
    total.backward()
    assert total.item() == 0.0


@pytest.mark.parametrize(("installed", "capability"), [(False, (9, 0)), (True, (6, 1))])
def test_a_gpu_without_triton_or_too_old_for_it_uses_the_formula(monkeypatch, installed, capability):
    monkeypatch.setattr(kernels, "HAS_TRITON", installed)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    criterion = Criterion(0.1)
    assert module._chunk_loss.__wrapped__(criterion, "cuda", torch.float32) == criterion.fused


@pytest.mark.usefixtures("chunks")
def test_padding_may_pass_through_the_formula_without_effect(monkeypatch):
    """As on a GPU, which would have to wait to count it."""
    states, weight, bias, labels = problem(torch.float64)
    expected = cross_entropy_loss(states, weight, labels, 0.1, bias)
    flat = states.flatten(0, 1)[None], weight, bias, labels.flatten()
    monkeypatch.setattr(module, "_chunk_loss", lambda criterion, *_: criterion.fused)
    total = module._ChunkedCrossEntropy.apply(*flat, Criterion(0.1), None)
    torch.testing.assert_close(total, expected)
    inputs = (states, weight, bias)
    for mine, other in zip(*(torch.autograd.grad(one, inputs) for one in (total, expected)), strict=True):
        torch.testing.assert_close(mine, other)


def two_views(dtype=torch.float64):
    states, weight, bias, labels = problem(dtype)
    return torch.stack([states.detach(), states.detach().flip(0)]).requires_grad_(), weight, bias, labels


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("regulariser", [RDropConfig(), SimCutConfig()])
def test_gradients_of_two_views_pass_the_numerical_check(regulariser):
    states, weight, bias, labels = two_views()
    criterion = Criterion(0.1, regulariser)
    assert torch.autograd.gradcheck(
        lambda *inputs: chunked_cross_entropy(inputs[0], inputs[1], labels, criterion, inputs[2]),
        (states, weight, bias),
    )


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("regulariser", [RDropConfig(), SimCutConfig()])
def test_two_views_are_compared_position_by_position(regulariser):
    states, weight, bias, labels = two_views()
    criterion = Criterion(0.1, regulariser)
    logits = [F.linear(view.flatten(0, 1), weight, bias) for view in states]
    losses, _ = criterion.fused(logits, labels.flatten())
    total = chunked_cross_entropy(states, weight, labels, criterion, bias)
    torch.testing.assert_close(total, losses.sum())
    with torch.no_grad():
        torch.testing.assert_close(
            chunked_cross_entropy(states, weight, labels, criterion, bias), losses.sum()
        )


def a_teacher(labels: Tensor, width: int = WIDTH + 3) -> Readout:
    states, weight = torch.randn(*labels.shape, width).double(), torch.randn(VOCABULARY, width).double()
    return Readout(states, weight, torch.randn(VOCABULARY).double())


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("regulariser", [None, RDropConfig(), SimCutConfig()])
def test_a_wider_teacher_is_used_position_by_position(regulariser):
    states, weight, bias, labels = two_views()
    states = states if regulariser else states[:1]
    criterion, teacher = Criterion(0.1, regulariser, teacher_weight=0.4), a_teacher(labels)
    logits = [F.linear(view.flatten(0, 1), weight, bias) for view in states]
    taught = F.linear(teacher.states.flatten(0, 1), teacher.weight, teacher.bias)
    losses, _ = criterion.fused(logits, labels.flatten(), taught)
    total = chunked_cross_entropy(states, weight, labels, criterion, bias, teacher)
    torch.testing.assert_close(total, losses.sum())


@pytest.mark.usefixtures("chunks")
def test_gradients_under_a_teacher_pass_the_numerical_check():
    states, weight, bias, labels = problem(torch.float64)
    criterion, teacher = Criterion(0.1, teacher_weight=0.4), a_teacher(labels)
    assert torch.autograd.gradcheck(
        lambda *inputs: chunked_cross_entropy(
            inputs[0][None], inputs[1], labels, criterion, inputs[2], teacher
        ),
        (states, weight, bias),
    )


def test_a_teacher_gets_no_gradient():
    states, weight, _, labels = problem(torch.float64)
    teacher = Readout(*(tensor.requires_grad_() for tensor in a_teacher(labels)))
    chunked_cross_entropy(
        states[None], weight, labels, Criterion(teacher_weight=0.5), teacher=teacher
    ).backward()
    assert teacher.states.grad is None
    assert teacher.weight.grad is None
    assert weight.grad is not None


@pytest.mark.parametrize(
    ("positions", "most", "rows"),
    [(10, 4, 4), (9, 4, 3), (3, 100, 3), (7, 0, 1), (0, 4, 1), (10_000, 6_000, 5_056), (8_192, 4_096, 4_096)],
)
def test_chunks_are_of_equal_size_and_large_ones_are_whole_tiles(positions, most, rows):
    assert module._rows(positions, most) == rows


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("regulariser", [RDropConfig(), SimCutConfig()])
def test_a_gpu_compares_two_views_as_the_cpu_does(precision, regulariser):
    states, weight, bias, labels = two_views(torch.float32)
    criterion = Criterion(0.1, regulariser)
    expected = chunked_cross_entropy(states, weight, labels, criterion, bias)
    with torch.autocast("cuda", precision, enabled=precision != torch.float32):
        total = chunked_cross_entropy(states.cuda(), weight.cuda(), labels.cuda(), criterion, bias.cuda())
    tolerance = 1e-3 if precision == torch.float32 else 0.1
    torch.testing.assert_close(total.cpu(), expected, rtol=tolerance, atol=tolerance)
    inputs = (states, weight, bias)
    for mine, other in zip(*(torch.autograd.grad(one, inputs) for one in (total, expected)), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_gpu_gives_the_results_of_the_cpu(precision):
    states, weight, bias, labels = problem()
    expected = reference(states, weight, bias, labels, 0.1)
    with torch.autocast("cuda", precision, enabled=precision != torch.float32):
        total = cross_entropy_loss(states.cuda(), weight.cuda(), labels.cuda(), 0.1, bias.cuda())
    tolerance = 1e-4 if precision == torch.float32 else 0.05
    torch.testing.assert_close(total.cpu(), expected, rtol=tolerance, atol=tolerance)
    inputs = (states, weight, bias)
    for mine, other in zip(*(torch.autograd.grad(one, inputs) for one in (total, expected)), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)
