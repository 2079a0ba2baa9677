"""Losses and gradients of rows of logits equal those of the plain formulas, in every implementation."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.config import Settings, parse_settings
from clearhead.errors import SettingsError
from clearhead.training.criterion import Criterion, RDropConfig, RegulariserConfig, SimCutConfig

VOCABULARY = 11


class WithRegulariser(Settings):
    regulariser: RegulariserConfig


RDROP, SIMCUT = RDropConfig(weight=5.0), SimCutConfig(weight=3.0)


def rows(dtype=torch.float64, scale=1.0, views=1):
    torch.manual_seed(3)
    logits = [torch.randn(7, VOCABULARY, dtype=dtype) * scale for _ in range(views)]
    labels = torch.randint(1, VOCABULARY, (7,))
    return logits, labels


def reference(criterion, logits, labels):
    """The losses by torch, and the gradients of their sum."""
    views = [view.clone().requires_grad_() for view in logits]
    losses = formula(criterion, views, labels)
    return losses.detach(), list(torch.autograd.grad(losses.sum(), views))


def formula(criterion, views, labels):
    def entropy(view):
        return F.cross_entropy(
            view, labels, ignore_index=0, label_smoothing=criterion.label_smoothing, reduction="none"
        )

    def divergence(view, other):
        """KL(view || other)."""
        logs = (F.log_softmax(one, -1) for one in (other, view))
        return F.kl_div(*logs, reduction="none", log_target=True).sum(-1).masked_fill(labels == 0, 0.0)

    match criterion.regulariser:
        case None:
            return entropy(views[0])
        case RDropConfig(weight=weight):
            one, two = views
            published = (
                entropy(one) + entropy(two) + weight * (divergence(one, two) + divergence(two, one)) / 2
            )
            return published / 2
        case SimCutConfig(weight=weight):
            return entropy(views[0]) + weight * divergence(*views)


@pytest.mark.parametrize("way", ["fused", "inplace"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["common", "improbable labels"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_and_gradients_equal_those_of_torch(way, label_smoothing, scale, dtype):
    logits, labels = rows(dtype, scale)
    criterion = Criterion(label_smoothing)
    expected = reference(criterion, logits, labels)
    torch.testing.assert_close(getattr(criterion, way)(logits, labels), expected)


@pytest.mark.parametrize("regulariser", [RDROP, SIMCUT])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_regularised_losses_and_gradients_are_those_of_the_papers(regulariser, label_smoothing, dtype):
    logits, labels = rows(dtype, views=2)
    labels[2:5] = 0
    criterion = Criterion(label_smoothing, regulariser)
    torch.testing.assert_close(criterion.fused(logits, labels), reference(criterion, logits, labels))


@pytest.mark.parametrize("regulariser", [None, RDROP, SIMCUT])
def test_a_teacher_takes_a_share_of_the_cross_entropy(regulariser):
    logits, labels = rows(views=2 if regulariser else 1)
    labels[2:5] = 0
    teacher = torch.randn_like(logits[0])
    criterion = Criterion(0.1, regulariser, teacher_weight=0.3)
    views = [view.clone().requires_grad_() for view in logits]

    def divergence(view):
        logs = F.log_softmax(view, -1), F.log_softmax(teacher, -1)
        return F.kl_div(*logs, reduction="none", log_target=True).sum(-1).masked_fill(labels == 0, 0.0)

    plain = [formula(Criterion(0.1), [view], labels) for view in views]
    taught = [0.7 * entropy + 0.3 * divergence(view) for entropy, view in zip(plain, views, strict=True)]
    beyond = formula(Criterion(0.1, regulariser), views, labels)
    if regulariser == RDROP:
        expected = beyond - (plain[0] + plain[1]) / 2 + (taught[0] + taught[1]) / 2
    else:
        expected = beyond - plain[0] + taught[0]
    gradients = torch.autograd.grad(expected.sum(), views)
    torch.testing.assert_close(criterion.fused(logits, labels, teacher), (expected.detach(), list(gradients)))


def test_who_agrees_with_the_only_teacher_has_no_loss():
    logits, labels = rows()
    losses, gradients = Criterion(0.1, teacher_weight=1.0).fused(logits, labels, logits[0])
    torch.testing.assert_close(
        (losses, gradients[0]), (torch.zeros_like(losses), torch.zeros_like(gradients[0]))
    )


@pytest.mark.parametrize("regulariser", [RDROP, SIMCUT])
def test_views_that_agree_have_the_plain_loss_and_equal_gradients_in_sum(regulariser):
    (view,), labels = rows()
    losses, gradients = Criterion(0.1, regulariser).fused([view, view], labels)
    expected, (gradient,) = Criterion(0.1).fused([view], labels)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(gradients[0] + gradients[1], gradient)


@pytest.mark.parametrize("regulariser", [None, RDROP, SIMCUT])
def test_padding_has_neither_loss_nor_gradient(regulariser):
    logits, labels = rows(views=2 if regulariser else 1)
    labels[2:5] = 0
    losses, gradients = Criterion(0.1, regulariser).fused(logits, labels)
    assert not losses[2:5].any()
    assert losses[:2].all()
    for gradient in gradients:
        assert not gradient[2:5].any()
        assert gradient[:2].all()


@pytest.mark.parametrize("way", ["fused", "inplace"])
def test_gradients_of_narrow_logits_are_narrow_and_losses_are_not(way):
    logits, labels = rows(torch.bfloat16)
    losses, (gradients,) = getattr(Criterion(0.1), way)(logits, labels)
    expected, (wide,) = Criterion(0.1).fused([logits[0].float()], labels)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(gradients, wide.bfloat16())


@pytest.mark.parametrize("regulariser", [None, RDROP, SIMCUT])
def test_the_fused_way_is_one_graph_for_any_number_of_rows(regulariser):
    """What is compiled may neither ask for a value nor depend on one."""
    torch._dynamo.reset()
    criterion = Criterion(0.1, regulariser)
    compiled = torch.compile(criterion.fused, backend="eager", fullgraph=True)
    logits, labels = rows(views=criterion.views)
    for count in (7, 5, 3):
        some = [view[:count] for view in logits], labels[:count]
        torch.testing.assert_close(compiled(*some), criterion.fused(*some))
        torch.testing.assert_close(compiled(*some, some[0][0]), criterion.fused(*some, some[0][0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "rdrp"}, "regulariser: 'rdrp' is not one of rdrop, simcut"),
        ({"kind": "simcut", "cut": 1.0}, "regulariser.cut: 1.0 should be less than 1"),
        ({"kind": "rdrop", "cut": 0.1}, "regulariser.cut: unknown setting"),
        ({"weight": 1.0}, "regulariser: kind is missing"),
    ],
)
def test_a_wrong_regulariser_is_refused_by_name(settings, message):
    with pytest.raises(SettingsError, match=message):
        parse_settings(WithRegulariser, {"regulariser": settings})
