"""Int8 weights are near the originals, and errors in them are named."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.accel.quantization import dequantize, quantize
from clearhead.errors import ModelError


@given(seed=st.integers(0, 1000), rows=st.integers(1, 9), columns=st.integers(1, 40), size=st.floats(-6, 4))
def test_no_value_moves_by_more_than_half_of_its_rows_scale(seed, rows, columns, size):
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 10**size
    stored = quantize({"w": matrix})
    moved = (dequantize(stored, "here")["w"] - matrix).abs()
    assert bool((moved <= stored["w.scales"][:, None] * 0.5001).all())
    assert stored["w"].dtype == torch.int8
    assert int(stored["w"].abs().max()) == 127


def test_quantizing_again_changes_nothing():
    once = dequantize(quantize({"w": torch.randn(50, 30)}), "here")
    twice = dequantize(quantize(once), "here")
    torch.testing.assert_close(once["w"], twice["w"], rtol=1e-6, atol=0)


def test_vectors_are_unchanged_and_rows_of_zeros_stay_zeros():
    weights = {"bias": torch.randn(7), "w": torch.zeros(3, 4)}
    found = dequantize(quantize(weights), "here")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], value) for name, value in weights.items())


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (None, "here: w is int8, but w.scales is missing; copy the file again"),
        (torch.ones(4), "here: w.scales does not have one number per row"),
        (torch.ones(3, dtype=torch.int32), "here: w.scales does not have one number per row"),
        (
            torch.tensor([1.0, 0.0, 1.0]),
            "here: w.scales has a scale that is not above 0; copy the file again",
        ),
        (torch.tensor([1.0, float("nan"), 1.0]), "here: w.scales has a scale that is not above 0"),
    ],
)
def test_wrong_scales_are_refused_by_name(scales, message):
    values = {"w": torch.ones(3, 4, dtype=torch.int8)} | ({} if scales is None else {"w.scales": scales})
    with pytest.raises(ModelError) as refused:
        dequantize(values, "here")
    assert str(refused.value).startswith(message)
