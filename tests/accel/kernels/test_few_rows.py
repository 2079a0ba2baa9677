"""Products of few rows equal torch's."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.accel import few_rows, kernels
from clearhead.layers.feedforward import gelu_tanh

ACTIVATIONS = {None: lambda x: x, "relu": F.relu, "gelu_tanh": gelu_tanh}


def near(ours: torch.Tensor, exact: torch.Tensor) -> None:
    torch.testing.assert_close(ours.float(), exact, atol=2e-3, rtol=2e-3, equal_nan=True)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 72, 130), (3, 64, 50), (8, 1500, 7)])
def test_the_kernel_equals_a_product(device, rows, inputs, outputs, biased, activation):
    from clearhead.accel.kernels.few_rows import multiply

    torch.manual_seed(0)
    x = torch.randn(rows, inputs, device=device).half()
    weight = (torch.randn(outputs, inputs, device=device) / inputs**0.5).half()
    bias = torch.randn(outputs, device=device).half() if biased else None
    found = multiply(x, weight, bias, activation)
    product = F.linear(x.float(), weight.float(), None if bias is None else bias.float())
    assert found.dtype == x.dtype
    near(found, ACTIVATIONS[activation](product))


def test_the_relu_of_nan_is_nan(device):
    from clearhead.accel.kernels.few_rows import multiply

    x = torch.tensor([[float("nan"), 1.0], [1.0, 1.0]], device=device).half()
    found = multiply(x, torch.tensor([[1.0, 2.0], [-1.0, -2.0]], device=device).half(), None, "relu")
    assert found[0].isnan().all()
    assert found[1].tolist() == [3.0, 0.0]


@torch.no_grad()
@pytest.mark.parametrize("case", ["rows", "one vector", "strided", "transposed", "too wide", "many rows"])
def test_products_of_any_layout_and_size_are_right(device, case, monkeypatch):
    """The kernel takes contiguous matrices up to a width, torch the others."""
    from clearhead.accel.kernels import few_rows as kernel

    used, multiply = [], kernel.multiply
    monkeypatch.setattr(kernels, "supports_decoding", lambda x: True)
    monkeypatch.setattr(kernel, "multiply", lambda *given: (used.append(1), multiply(*given))[1])
    if case == "too wide":
        monkeypatch.setattr(kernel, "MAX_INPUTS", 32)
    torch.manual_seed(0)
    weight = (torch.randn(40, 64, device=device) / 8).half()
    weight = weight.t().contiguous().t() if case == "transposed" else weight
    x = torch.randn(3, 1, 128, device=device).half()
    x = {"one vector": x[0, 0, :64], "strided": x[..., ::2]}.get(case, x[..., :64])
    x = x.repeat(2, 1, 1) if case == "many rows" else x
    near(few_rows.linear(x, weight, None), F.linear(x.float(), weight.float()))
    assert bool(used) is (case in ("rows", "one vector", "strided"))
