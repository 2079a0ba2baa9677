"""Layers for decoding on a GPU equal the plain ones for any number of rows."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clearhead.accel import few_rows, kernels
from clearhead.accel.few_rows import MAX_ROWS, DecodingLinear, linear
from clearhead.accel.packing import Packed, PackedProjections
from clearhead.layers.feedforward import gelu_tanh
from clearhead.models import GPT, GPTConfig
from clearhead.models.engine import Engine

pytestmark = pytest.mark.accel
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SMALL = {"width": 64, "ffn_width": 96, "layers": 2, "attention": {"heads": 4}, "context_length": 32}


@torch.no_grad()
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 64), (MAX_ROWS, 1, 64), (MAX_ROWS + 1, 64), (2, 30, 64), (0, 64)])
@pytest.mark.parametrize("biased", [True, False])
def test_a_decoding_layer_equals_a_linear_one(device, shape, biased):
    torch.manual_seed(0)
    plain = nn.Linear(64, 40, biased).to(device, torch.bfloat16)
    x = torch.randn(*shape, device=device, dtype=torch.bfloat16)
    found = DecodingLinear(plain.weight, plain.bias)(x)
    torch.testing.assert_close(found, plain(x), atol=2e-2, rtol=2e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, MAX_ROWS, MAX_ROWS + 1])
@pytest.mark.parametrize(("name", "activation"), [("relu", F.relu), ("gelu_tanh", gelu_tanh)])
def test_the_activation_follows_the_product(rows, name, activation):
    torch.manual_seed(0)
    plain = nn.Linear(64, 40).to("cuda", torch.bfloat16)
    x = torch.randn(rows, 64, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        found = linear(x, plain.weight, plain.bias, name)
        torch.testing.assert_close(found, activation(plain(x)), atol=2e-2, rtol=2e-2)


@pytest.mark.gpu
@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"activation": "relu"}, {"activation": "swiglu", "bias": False}])
def test_a_copy_in_bf16_has_the_same_logits_with_and_without_the_kernel(settings, monkeypatch):
    torch.manual_seed(0)
    model = GPT(GPTConfig.model_validate(SMALL | settings), 50).to("cuda").eval()
    tokens = torch.randint(50, (2, 12), device="cuda")

    def logits() -> torch.Tensor:
        fast = Engine(model, "bf16").current()
        state = fast.start(tokens[:, :4])
        return torch.stack([fast.step(tokens[:, position], state) for position in range(4, 12)])

    with_kernel = logits()
    monkeypatch.setattr(few_rows, "MAX_ROWS", 0)
    torch.testing.assert_close(with_kernel, logits(), atol=3e-2, rtol=3e-2)


def test_a_copy_in_bf16_for_a_gpu_has_decoding_layers(monkeypatch):
    """Its layers compute the same on a CPU, by torch's products."""
    assert not kernels.supports(torch.empty(1, dtype=torch.bfloat16))
    torch.manual_seed(0)
    model = GPT(GPTConfig.model_validate(SMALL), 50).eval()
    plain = Packed(model, model.readout_weight, "bf16").current()
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "supports_decoding", lambda tensor: True)
        copy = Packed(model, model.readout_weight, "bf16").current()
    kinds = {type(module) for module in copy.modules()}
    assert {DecodingLinear, PackedProjections} <= kinds
    assert nn.Linear not in kinds
    tokens = torch.randint(50, (2, 9))
    with torch.no_grad():
        assert torch.equal(copy(tokens), plain(tokens))
