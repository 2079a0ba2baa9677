"""Matrices that lie as steps want them are the same matrices."""

import pytest
import torch
from torch import nn

from clearhead.accel.packing import MANY, PackedLinear, pack_linears
from clearhead.checkpoint import weights
from clearhead.layers.attention import AttentionConfig
from clearhead.models import GPT, GPTConfig

WIDE = GPTConfig(width=512, ffn_width=1040, layers=2, attention=AttentionConfig(heads=4), context_length=16)


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    return GPT(WIDE, 50).eval()


@pytest.mark.parametrize("rows", [(1, 1), (3,), (2, 5), (MANY, 1)])
@pytest.mark.parametrize(("outputs", "block"), [(768, 24), (1024, 32), (1040, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_in_blocks_is_that_of_the_linear_layer(rows, outputs, block, bias):
    torch.manual_seed(0)
    linear = nn.Linear(512, outputs, bias)
    whole = nn.Sequential(linear)
    pack_linears(whole, torch.empty(0, 1))
    laid = whole[0]
    assert isinstance(laid, PackedLinear)
    assert laid.blocks.shape == (outputs // block, 512, block)
    assert torch.equal(laid.weight, linear.weight)
    x = torch.randn(*rows, 512)
    torch.testing.assert_close(laid(x), linear(x))


def test_matrices_that_are_small_or_do_not_part_into_blocks_stay_linear_layers():
    whole = nn.Sequential(nn.Linear(64, 96), nn.Linear(512, 1030), nn.Linear(512, 1024).bfloat16())
    pack_linears(whole, torch.empty(0, 1))
    assert all(type(part) is nn.Linear for part in whole)


def test_a_laid_model_has_the_weights_that_it_had(model):
    before = {name: value.clone() for name, value in weights(model).items()}
    parameters = sum(weight.numel() for weight in model.parameters())
    pack_linears(model, model.readout_weight)
    assert any(isinstance(part, PackedLinear) for part in model.modules())
    laid = weights(model)
    assert laid.keys() == before.keys()
    assert all(torch.equal(laid[name], value) for name, value in before.items())
    assert sum(weight.numel() for weight in model.parameters()) == parameters


@torch.inference_mode()
def test_steps_of_a_laid_model_equal_one_full_pass_of_it_as_it_was(model):
    tokens = torch.randint(0, 50, (2, 12))
    whole = model(tokens)
    pack_linears(model, model.readout_weight)
    state = model.start(tokens[:, :4])
    steps = [model.step(tokens[:, position], state) for position in range(4, 12)]
    torch.testing.assert_close(torch.stack(steps, 1), whole[:, 4:])
