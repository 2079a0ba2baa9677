"""Packed matrices compute the same products, in a copy that leaves the model alone."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from clearhead.accel import kernels, onednn
from clearhead.accel.packing import UNPACK_FROM, Packed, PackedLinear, bf16_copy, packed_copy
from clearhead.checkpoint import set_weights, weights
from clearhead.layers.attention import AttentionConfig
from clearhead.models import GPT, GPTConfig

pytestmark = pytest.mark.accel
WIDE = GPTConfig(width=512, ffn_width=1040, layers=2, attention=AttentionConfig(heads=4), context_length=16)


@pytest.fixture(autouse=True)
def mkl(monkeypatch) -> None:
    """A processor on which MKL is as fast as oneDNN."""
    monkeypatch.setattr(onednn, "is_faster", lambda: False)


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    return GPT(WIDE, 50).eval()


@pytest.mark.parametrize("rows", [(1, 1), (3,), (2, 5), (UNPACK_FROM, 1)])
@pytest.mark.parametrize(("outputs", "block"), [(768, 24), (1024, 32), (1040, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_linear_layer_equals_the_plain_one(rows, outputs, block, bias):
    torch.manual_seed(0)
    linear = nn.Linear(512, outputs, bias)
    packed = packed_copy(nn.Sequential(linear), torch.empty(0, 1))[0]
    assert isinstance(packed, PackedLinear)
    assert packed.blocks.shape == (outputs // block, 512, block)
    assert torch.equal(packed.weight, linear.weight)
    x = torch.randn(*rows, 512)
    torch.testing.assert_close(packed(x), linear(x))


def test_small_matrices_and_those_that_blocks_do_not_divide_stay_linear_layers():
    model = nn.Sequential(nn.Linear(64, 96), nn.Linear(512, 1030), nn.Linear(512, 1024).bfloat16())
    packed = packed_copy(model, torch.empty(0, 1))
    assert all(type(part) is nn.Linear for part in packed)


def test_a_model_without_matrices_to_pack_is_not_copied():
    model = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32))
    assert packed_copy(model, torch.empty(0, 1)) is model


def test_the_model_keeps_its_modules_memory_and_values(model):
    kinds = [type(part) for part in model.modules()]
    values = {name: value.clone() for name, value in weights(model).items()}
    layout = [(parameter.data_ptr(), parameter.stride()) for parameter in model.parameters()]
    packed = packed_copy(model, model.readout_weight)
    assert any(isinstance(part, PackedLinear) for part in packed.modules())
    assert [type(part) for part in model.modules()] == kinds
    assert [(parameter.data_ptr(), parameter.stride()) for parameter in model.parameters()] == layout
    assert all(torch.equal(value, values[name]) for name, value in weights(model).items())


def test_the_copy_shares_unpacked_tensors_and_keeps_ties(model):
    packed = packed_copy(model, model.readout_weight)
    assert packed.decoder.norm.weight is model.decoder.norm.weight
    assert packed.readout_weight is packed.embedding.weight
    assert torch.equal(packed.readout_weight, model.readout_weight)
    assert packed.config == model.config


@torch.inference_mode()
def test_steps_of_a_packed_copy_equal_one_full_pass_of_the_model(model):
    tokens = torch.randint(0, 50, (2, 12))
    whole = model(tokens)
    packed = packed_copy(model, model.readout_weight)
    state = packed.start(tokens[:, :4])
    steps = [packed.step(tokens[:, position], state) for position in range(4, 12)]
    torch.testing.assert_close(torch.stack(steps, 1), whole[:, 4:])


def test_the_copy_follows_the_weights_of_the_model(model):
    packed = Packed(model, model.readout_weight)
    first = packed.current()
    assert packed.current() is first
    torch.manual_seed(1)
    set_weights(model, weights(GPT(WIDE, 50)), "here")
    tokens = torch.randint(0, 50, (2, 12))
    torch.testing.assert_close(packed.current()(tokens), model(tokens))
    model.bfloat16()
    assert packed.current().readout_weight.dtype == torch.bfloat16


@pytest.mark.parametrize("on_gpu", [True, False])
@pytest.mark.parametrize("inference", [True, False])
def test_a_bf16_copy_leaves_the_model_as_it_was(monkeypatch, on_gpu, inference):
    """Also one whose weights were made in inference mode."""
    monkeypatch.setattr(kernels, "supports_decoding", lambda tensor: on_gpu)
    with torch.inference_mode(inference):
        model = GPT(WIDE.model_copy(update={"position": "sinusoidal"}), 50).eval()
    before, kinds = deepcopy(model.state_dict()), [type(module) for module in model.modules()]
    tokens = torch.randint(50, (2, 9))
    with torch.inference_mode():
        expected = deepcopy(model).to(torch.bfloat16)(tokens)
        copy = bf16_copy(model, model.readout_weight)
        assert torch.equal(copy(tokens), expected)
        again = bf16_copy(copy, copy.readout_weight)
        assert torch.equal(again(tokens), expected)
    assert {tensor.dtype for tensor in [*copy.parameters(), *copy.buffers()]} == {torch.bfloat16}
    assert copy.readout_weight is copy.embedding.weight
    assert [type(module) for module in model.modules()] == kinds
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {tensor.dtype for tensor in [*model.parameters(), *model.buffers()]} == {torch.float32}


@pytest.mark.parametrize("make", [packed_copy, bf16_copy])
def test_a_hook_of_the_model_is_not_one_of_its_copy(model, make):
    copy = make(model, model.readout_weight)
    model.register_forward_hook(lambda *_: pytest.fail("the copy shares hooks"))
    with torch.no_grad():
        copy(torch.randint(50, (2, 9)))
