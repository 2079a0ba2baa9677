"""Muon takes the steps of torch's Muon, for many matrices at once."""

import pytest
import torch
from torch import Tensor

from clearhead.training.optimizer import Muon, orthogonal

SHAPES = [(16, 16), (16, 16), (16, 48), (48, 16), (16, 48)]


def matrices(device: str = "cpu") -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(device) for shape in SHAPES]


def give_gradients(ours: list[Tensor], seed: int) -> None:
    torch.manual_seed(seed)
    for matrix in ours:
        matrix.grad = torch.randn(matrix.shape).to(matrix.device)


def test_matrices_in_a_batch_take_the_steps_that_torch_takes_one_by_one():
    ours, theirs = matrices(), [torch.nn.Parameter(matrix) for matrix in matrices()]
    muon = Muon(ours, momentum=0.95, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, lr=0.05, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    muon.param_groups[0]["lr"] = 0.05
    for step in range(3):
        for optimizer, each in ((muon, ours), (reference, theirs)):
            give_gradients(each, step)
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other.detach(), atol=5e-3, rtol=0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_diverged_step_changes_neither_weights_nor_momenta(device):
    ours = matrices(device)
    muon = Muon(ours, momentum=0.95, weight_decay=0.1)
    muon.param_groups[0]["lr"] = 0.05
    give_gradients(ours, 1)
    muon.step()
    before = [matrix.clone() for matrix in ours]
    momenta = [muon.state[matrix]["momentum_buffer"].clone() for matrix in ours]
    for matrix in ours:
        matrix.grad = torch.full_like(matrix, torch.nan)
    muon.found_inf = torch.ones((), device=device)
    muon.step()
    assert all(map(torch.equal, ours, before))
    assert all(
        torch.equal(muon.state[one]["momentum_buffer"], old) for one, old in zip(ours, momenta, strict=True)
    )
    give_gradients(ours, 2)
    muon.found_inf = torch.zeros((), device=device)
    muon.step()
    assert not any(map(torch.equal, ours, before))


def test_singular_values_are_near_one():
    for matrix in matrices():
        values = torch.linalg.svdvals(orthogonal(matrix[None])[0].float())
        assert values.min() > 0.4
        assert values.max() < 1.4
