"""Int8 products: close to fp32, with exact sums, and independent of the rest of the batch."""

import pytest
import torch
from torch import nn

from clearhead.accel.int8 import Int8Linear, linear, supported
from clearhead.accel.packing import PackedProjections, int8_copy
from clearhead.layers.attention import Projections
from clearhead.models import GPT, GPTConfig

pytestmark = [
    pytest.mark.accel,
    pytest.mark.skipif(not supported(), reason="this processor has no int8 products"),
]


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@torch.no_grad()
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_close_to_that_in_fp32(bias):
    linear = nn.Linear(96, 160, bias)
    x = torch.randn(5, 3, 96)
    assert relative_error(Int8Linear(linear.weight, linear.bias)(x), linear(x)) < 0.02


@torch.no_grad()
def test_the_result_for_a_vector_does_not_depend_on_the_rest_of_the_batch():
    packed = Int8Linear(torch.randn(160, 96), torch.randn(160))
    x = torch.randn(64, 96) * torch.logspace(-3, 3, 64)[:, None]
    batch = packed(x)
    assert all(torch.equal(batch[row : row + 1], packed(x[row : row + 1])) for row in range(64))


@torch.no_grad()
def test_a_vector_of_zeros_gives_the_bias_and_nan_stays_nan():
    bias = torch.randn(32)
    packed = Int8Linear(torch.randn(32, 16), bias)
    assert torch.equal(packed(torch.zeros(1, 16))[0], bias)
    assert packed(torch.full((1, 16), torch.nan)).isnan().all()


@torch.no_grad()
def test_inputs_that_are_never_negative_are_more_exact():
    weight, x = torch.randint(-127, 128, (160, 96)).float(), torch.randn(200, 96).relu()
    weight[:, 0] = 127
    errors = [
        relative_error(Int8Linear(weight, None, positive)(x), x @ weight.T) for positive in (False, True)
    ]
    assert errors[1] < 0.6 * errors[0]


@torch.no_grad()
def test_weights_that_were_int8_stay_exact():
    integers = torch.randint(-127, 128, (32, 16)).float()
    integers[:, 0] = 127
    x = torch.randint(-127, 128, (4, 16)).float()
    x[:, 0] = 127
    torch.testing.assert_close(Int8Linear(integers)(x), x @ integers.T)


@torch.no_grad()
def test_ranges_of_stacked_matrices_equal_the_matrices():
    stacked = Projections(48, (64, 32, 32))
    packed, x = PackedProjections(stacked, stacked.sizes, Int8Linear), torch.randn(2, 3, 48)
    for first, last in ((0, 3), (0, 1), (1, 3)):
        assert relative_error(packed(x, first, last), stacked(x, first, last)) < 0.02
    assert torch.equal(packed(x, 0, 1), packed(x, 0, 3)[..., :64])


@torch.no_grad()
def test_an_int8_copy_leaves_the_model_and_its_embedding_as_they_were():
    model = GPT(GPTConfig(width=64, ffn_width=128, layers=2, attention={"heads": 2}, context_length=32), 100)  # pyright: ignore
    model.eval()
    kinds, tokens = [type(part) for part in model.modules()], torch.randint(0, 100, (2, 9))
    before = model(tokens)
    copy = int8_copy(model, model.readout_weight)
    assert relative_error(copy(tokens), before) < 0.06
    assert [type(part) for part in model.modules()] == kinds
    assert torch.equal(model(tokens), before)
    assert copy.embedding.weight is model.embedding.weight
    assert isinstance(copy.readout_weight, Int8Linear)


def test_linear_takes_a_matrix_or_the_module_that_replaces_it():
    x, matrix = torch.randn(3, 16), torch.randn(8, 16)
    torch.testing.assert_close(linear(x, matrix), x @ matrix.T)
    assert relative_error(linear(x, Int8Linear(matrix)), x @ matrix.T) < 0.03
