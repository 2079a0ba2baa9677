"""A block computes the same with the project's kernels and with those of torch."""

import pytest
import torch

from clearhead import kernels
from clearhead.layers.block import BlockConfig, Stack
from clearhead.layers.mask import Causal, Sentences

SETTINGS = {
    "plain": {},
    "rotary": {"position": "rotary"},
    "shared keys": {"attention": {"heads": 4, "key_heads": 2}},
    "cosine": {"attention": {"heads": 4, "score": "cosine"}},
    "no bias": {"bias": False},
    "before": {"norm_place": "pre"},
    "gelu": {"activation": "gelu"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_block_is_the_same_with_kernels_of_its_own_and_of_torch(device, monkeypatch, settings):
    torch.manual_seed(0)
    config = BlockConfig.model_validate(
        {"width": 64, "hidden": 96, "attention": {"heads": 4}, "dropout": 0.0} | settings
    )
    [block] = Stack(config, layers=1, cross=True).to(device).blocks
    numbers = torch.tensor([[1] * 10 + [2] * 22, [1] * 32], dtype=torch.int32, device=device)
    own, across = Sentences(numbers, numbers) & Causal(), Sentences(numbers, numbers)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    x, source, slope = (torch.randn(2, 32, 64, device=device, dtype=kind) for _ in range(3))

    def gradients(ours: bool) -> list[torch.Tensor]:
        monkeypatch.setattr(kernels, "serve", lambda x: ours)
        inputs = [x.clone().requires_grad_(), source.clone().requires_grad_()]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            out = block(inputs[0], own, None, inputs[1], across)
        learned = [*inputs, *block.parameters()]
        return [out, *torch.autograd.grad(out, learned, slope)]

    tolerance = 5e-2 if device == "cuda" else 1e-4
    for mine, other in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)
