"""Muon: steps for matrices along their momentum, made orthogonal (Jordan et al. 2024)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# The quintic whose iteration sends all singular values near 1 (Jordan et al. 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
SMALL = 1e-7


class Muon(torch.optim.Optimizer):
    """Like torch's, but matrices of one shape go through the products together, which takes far less time.

    The size of a step is that of an AdamW step (Liu et al. 2025). The caller may set what torch's fused
    optimizers know: where `found_inf` is 1, no step is taken, and nobody has to wait to know of it; gradients
    are divided by `grad_scale`.
    """

    def __init__(self, matrices: Iterable[Tensor], momentum: float, weight_decay: float):
        super().__init__(
            [{"params": list(matrices)}], {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay}
        )
        self.found_inf: Tensor | None = None
        self.grad_scale: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        # A processor knows at once.
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
        momentum, rate, decay = group["momentum"], group["lr"], group["weight_decay"]
        gradients: list[Tensor] = [matrix.grad for matrix in matrices if matrix.grad is not None]
        if self.grad_scale is not None:
            torch._foreach_div_(gradients, self.grad_scale)  # pyright: ignore[reportPrivateImportUsage]
        good: Tensor | float = 1.0
        if self.found_inf is not None and self.found_inf.device.type != "cpu":
            good = 1 - self.found_inf
            gradients = [torch.where(good > 0, gradient, 0) for gradient in gradients]
        ahead = torch.empty((len(matrices), *matrices[0].shape), device=gradients[0].device)
        for matrix, gradient, room in zip(matrices, gradients, ahead, strict=True):
            kept = self._momentum(matrix).lerp_(gradient, (1 - momentum) * good)
            # A step ahead along the momentum (Nesterov 1983).
            torch.lerp(gradient, kept, momentum, out=room)
        steps = orthogonal(ahead)
        size = -0.2 * max(matrices[0].shape) ** 0.5 * rate
        for matrix, step in zip(matrices, steps, strict=True):
            if decay:
                matrix.mul_(1 - rate * decay * good)
            matrix.add_(step * good if isinstance(good, Tensor) else step, alpha=size)

    def _momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        return state["momentum_buffer"]


def orthogonal(matrices: Tensor) -> Tensor:
    """The orthogonal matrices near to these, about, in bf16: Newton-Schulz in five rounds."""
    a, b, c = QUINTIC
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(SMALL)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
