"""Tiled products equal plain ones."""

import torch


def test_three_matrices_side_by_side_equal_their_concatenation(device):
    from clearhead.accel.kernels.matmul import sum_of_products

    torch.manual_seed(0)
    # Several tiles in each direction, the last ones not full.
    parts = [torch.randn(200, 72, device=device).half() for _ in range(3)]
    weight = torch.randn(216, 136, device=device).half()
    whole = torch.cat(parts, 1).float() @ weight.float()
    assert (sum_of_products(*parts, weight) - whole).norm() < 1e-3 * whole.norm()
