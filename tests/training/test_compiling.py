"""What the compiler is told changes nothing but how long it takes."""

from shutil import which

import pytest
import torch
from torch import Tensor

from clearhead.training import compiling

needs_compiler = pytest.mark.skipif(which("g++") is None, reason="needs g++")


@torch.library.custom_op("tests::parted", mutates_args=())
def parted(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin(), x.cos()


@parted.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def alone(x: Tensor, weight: Tensor) -> Tensor:
    around, through = parted(x)
    return around + through @ weight


def read_again(x: Tensor, weight: Tensor) -> Tensor:
    around, through = parted(x)
    return (around + through @ weight) * around


def computed(x: Tensor, weight: Tensor) -> Tensor:
    around = x.tanh()
    return around + around.sin() @ weight


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("function", "in_place"), [(alone, 1), (read_again, 0), (computed, 0)])
def test_a_product_is_added_in_place_only_where_nobody_reads_what_lay_there(function, in_place, monkeypatch):
    calls = []
    change = compiling.AddsInPlace.__call__

    def counted(self, graph):
        change(self, graph)
        functional = torch.ops.higher_order.auto_functionalized
        calls.append(len(graph.find_nodes(op="call_function", target=functional)))

    monkeypatch.setattr(compiling.AddsInPlace, "__call__", counted)
    torch._dynamo.reset()
    x, weight = torch.randn(16, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    with torch._inductor.config.patch(force_disable_caches=True):
        found = compiling.compiled(function)(x, weight)
    assert torch.allclose(found, function(x, weight), atol=1e-12)
    assert calls == [in_place]


def test_functions_are_compiled_with_equal_settings_so_that_they_share_what_is_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **settings: settings)
    assert compiling.compiled(alone) == compiling.compiled(computed)
