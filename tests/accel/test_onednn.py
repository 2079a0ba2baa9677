"""Products by oneDNN equal those of torch, traced or not."""

import pytest
import torch
from torch import nn

from clearhead.accel import onednn, packing, tracing
from clearhead.accel.onednn import LARGE, OneDNNLinear, is_faster
from clearhead.accel.packing import PackedProjections, packed_copy, row_branches
from clearhead.layers.attention import AttentionConfig, Projections
from clearhead.models import GPT, GPTConfig

pytestmark = [
    pytest.mark.accel,
    pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN"),
]


@pytest.fixture
def faster(monkeypatch) -> None:
    """A processor on which oneDNN is faster."""
    monkeypatch.setattr(onednn, "is_faster", lambda: True)


@torch.inference_mode()
@pytest.mark.parametrize("rows", [(1,), (2,), (0, 4), (3,), (2, 5), (64, 1)])
@pytest.mark.parametrize(("inputs", "outputs"), [(48, 96), (96, 48), (512, 2048)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_equals_the_plain_one(rows, inputs, outputs, bias):
    torch.manual_seed(0)
    plain = nn.Linear(inputs, outputs, bias)
    layer = OneDNNLinear(plain.weight, plain.bias)
    assert (layer._few is None) == (plain.weight.nbytes >= LARGE)
    x = torch.randn(*rows, inputs)
    torch.testing.assert_close(layer(x), plain(x))
    torch.testing.assert_close(layer(x.mT.contiguous().mT), plain(x))


@torch.inference_mode()
def test_a_trace_serves_any_number_of_rows_on_its_side_of_the_branches(monkeypatch):
    monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", 1)
    layer = OneDNNLinear(torch.randn(96, 48), torch.randn(96))
    for first, others in ((5, (3, 200)), (2, (1,)), (300, (256,))):
        traced = tracing.TracedModule(layer)
        traced(torch.randn(first, 48))
        assert traced._traced
        for rows in others:
            assert row_branches(rows) == row_branches(first)
            x = torch.randn(rows, 48)
            assert torch.equal(traced(x), layer(x))


@torch.inference_mode()
def test_each_range_of_stacked_matrices_is_a_layer():
    stacked = Projections(48, (48, 16, 16))
    packed, x = PackedProjections(stacked, stacked.sizes, OneDNNLinear), torch.randn(2, 3, 48)
    for first, last in ((0, None), (0, 1), (1, None)):
        torch.testing.assert_close(packed(x, first, last), stacked(x, first, last))


@torch.inference_mode()
def test_a_copy_computes_what_the_model_does(faster):
    torch.manual_seed(0)
    config = GPTConfig(width=64, layers=2, attention=AttentionConfig(heads=4), context_length=16)
    model = GPT(config, 50).eval()
    tokens = torch.randint(0, 50, (4, 12))
    whole = model(tokens)
    copy = packed_copy(model, model.readout_weight)
    assert isinstance(copy.readout_weight, OneDNNLinear)
    assert not any(type(module) is nn.Linear for module in copy.modules())
    state = copy.start(tokens[:, :4])
    steps = [copy.step(tokens[:, position], state) for position in range(4, 12)]
    torch.testing.assert_close(torch.stack(steps, 1), whole[:, 4:], rtol=1e-4, atol=1e-5)
    assert copy.embedding.weight is model.embedding.weight


def test_matrices_that_are_not_fp32_stay(faster):
    model = nn.Sequential(nn.Linear(64, 96), nn.Linear(64, 96).bfloat16())
    first, second = packing.packed_copy(model, model[0].weight)
    assert isinstance(first, OneDNNLinear)
    assert type(second) is nn.Linear


@pytest.mark.parametrize(
    ("cpuinfo", "capability", "expected"),
    [
        ("processor : 0\nvendor_id\t: AuthenticAMD\n", "AVX512", True),
        ("processor : 0\nvendor_id\t: GenuineIntel\n", "AVX512", False),
        ("processor : 0\nvendor_id\t: AuthenticAMD\n", "AVX2", False),
        ("processor : 0\n", "AVX512", False),
        (None, "AVX512", False),
    ],
)
def test_it_is_faster_where_mkl_has_no_avx_512(cpuinfo, capability, expected, monkeypatch, tmp_path):
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(onednn, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert is_faster.__wrapped__() == expected
