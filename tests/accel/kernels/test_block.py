"""A block is as exact with our kernels as with torch's."""

import pytest
import torch

from clearhead.accel import kernels
from clearhead.layers.block import Stack
from clearhead.layers.mask import Causal, SameSegment
from clearhead.models import TranslatorConfig

SETTINGS = {
    "plain": {},
    "rotary": {"position": "rotary"},
    "grouped queries": {"attention": {"heads": 4, "kv_heads": 2}},
    "cosine": {"attention": {"heads": 4, "score": "cosine"}},
    "no bias": {"bias": False},
    "pre-norm": {"norm_position": "pre"},
    "pre-norm, no bias": {"norm_position": "pre", "bias": False},
    "pre-norm, rms": {"norm_position": "pre", "norm": "rms"},
    "gelu": {"activation": "gelu"},
    "gelu_tanh": {"activation": "gelu_tanh"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_block_with_our_kernels_is_as_exact_as_with_torchs(device, monkeypatch, settings):
    torch.manual_seed(0)
    config = TranslatorConfig.model_validate(
        {"width": 64, "ffn_width": 96, "attention": {"heads": 4}, "dropout": 0.0} | settings
    )
    [block] = Stack(config, layers=1, cross=True).to(device).blocks
    numbers = torch.tensor([[1] * 10 + [2] * 22, [1] * 32], dtype=torch.int32, device=device)
    own, across = SameSegment(numbers, numbers) & Causal(), SameSegment(numbers, numbers)
    narrow = torch.bfloat16 if device == "cuda" else torch.float32
    x, source, gradient = (torch.randn(2, 32, 64, device=device, dtype=narrow) for _ in range(3))

    def gradients(ours: bool, kind: torch.dtype) -> list[torch.Tensor]:
        monkeypatch.setattr(kernels, "supports", lambda x: ours)
        inputs = [x.to(kind).requires_grad_(), source.to(kind).requires_grad_()]
        block.to(torch.float64 if kind == torch.float64 else torch.float32)
        with torch.autocast(device, torch.bfloat16, enabled=kind == torch.bfloat16):
            out = block(inputs[0], own, None, inputs[1], across)
        learned = [*inputs, *block.parameters()]
        return [out, *torch.autograd.grad(out, learned, gradient.to(kind))]

    every = (
        gradients(ours, kind) for ours, kind in ((True, narrow), (False, narrow), (False, torch.float64))
    )
    for mine, other, exact in zip(*every, strict=True):
        assert (mine - exact).norm() <= 3 * (other - exact).norm() + 1e-6 * exact.norm()
