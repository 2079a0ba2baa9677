"""Muon: steps for matrices along their orthogonalised momentum (Jordan et al. 2024)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from clearhead.accel.torch_private import divide_all_

# The quintic whose iteration moves all singular values towards 1 (Jordan et al. 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
EPSILON = 1e-7


class Muon(torch.optim.Optimizer):
    """Like torch's Muon, but matrices of one shape are orthogonalised as a batch, which is far faster.

    A step has the size of an AdamW step (Liu et al. 2025). As in torch's fused optimizers, `found_inf` and
    `grad_scale` may be set: where `found_inf` is 1 no step is taken, without waiting for the device, and
    gradients are divided by `grad_scale`.
    """

    def __init__(self, matrices: Iterable[Tensor], momentum: float, weight_decay: float):
        super().__init__(
            [{"params": list(matrices)}], {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay}
        )
        self.found_inf: Tensor | None = None
        self.grad_scale: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.found_inf is not None and self.found_inf.device.type == "cpu" and self.found_inf.item():
            return
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for matrices in by_shape.values():
                self._step(matrices, group)

    def _step(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        momentum, learning_rate, decay = group["momentum"], group["lr"], group["weight_decay"]
        gradients: list[Tensor] = [matrix.grad for matrix in matrices if matrix.grad is not None]
        if self.grad_scale is not None:
            divide_all_(gradients, self.grad_scale)
        finite: Tensor | float = 1.0
        if self.found_inf is not None and self.found_inf.device.type != "cpu":
            finite = 1 - self.found_inf
            gradients = [torch.where(finite > 0, gradient, 0) for gradient in gradients]
        ahead = torch.empty((len(matrices), *matrices[0].shape), device=gradients[0].device)
        for matrix, gradient, out in zip(matrices, gradients, ahead, strict=True):
            kept = self._momentum(matrix).lerp_(gradient, (1 - momentum) * finite)
            # A step ahead along the momentum (Nesterov 1983).
            torch.lerp(gradient, kept, momentum, out=out)
        steps = orthogonal(ahead)
        size = -0.2 * max(matrices[0].shape) ** 0.5 * learning_rate
        for matrix, step in zip(matrices, steps, strict=True):
            if decay:
                matrix.mul_(1 - learning_rate * decay * finite)
            matrix.add_(step * finite if isinstance(finite, Tensor) else step, alpha=size)

    def _momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        return state["momentum_buffer"]


def orthogonal(matrices: Tensor) -> Tensor:
    """Approximately the nearest orthogonal matrices, in bf16: five Newton-Schulz iterations."""
    a, b, c = QUINTIC
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(EPSILON)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
