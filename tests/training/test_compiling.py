"""What the compiler is told changes nothing but how long it takes."""

from pathlib import Path
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


def multiplied_too(x: Tensor, weight: Tensor) -> Tensor:
    around, _ = parted(x)
    return around + around @ weight


def computed(x: Tensor, weight: Tensor) -> Tensor:
    around = x.tanh()
    return around + around.sin() @ weight


def side_by_side(x: Tensor, weight: Tensor) -> Tensor:
    """As gradients of queries, keys and values come back to what they were made of, and to its weights."""
    parts = [part.unflatten(0, (2, -1)).unflatten(-1, (2, -1)) for part in (x.sin(), x.cos(), x.tanh())]
    matrix = torch.stack(parts, 2).flatten(2).flatten(0, 1)
    return torch.cat([matrix @ weight.repeat(3, 1), matrix.T @ x])


def made_matrices_later(x: Tensor, weight: Tensor) -> Tensor:
    parts = [part.unflatten(0, (2, -1)) for part in (x.sin(), x.cos(), x.tanh())]
    product = torch.cat(parts, -1).flatten(0, 1) @ weight.repeat(3, 1)
    return parted(product)[0] + parted(parts[0].reshape(len(x), -1))[0]


def without_rows(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x[:0].sin(), x[:0].cos(), x[:0].tanh()], 1) @ weight.repeat(3, 1)


def of_two_types(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x.sin().float(), x.cos(), x.tanh()], 1) @ weight.repeat(3, 1)


def one_above_the_other(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x.sin(), x.cos(), x.tanh()], 0) @ weight


def two(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x.sin(), x.cos()], 1) @ weight.repeat(2, 1)


def compiled(function, target, monkeypatch) -> int:
    """How many nodes of a kind a compiled function has, which gives what it gave before."""
    counts: list[int] = []
    change = compiling.Rewrites.__call__

    def counted(self, graph):
        change(self, graph)
        counts.append(len(graph.find_nodes(op="call_function", target=target)))

    monkeypatch.setattr(compiling.Rewrites, "__call__", counted)
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, weight = torch.randn(16, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    with torch._inductor.config.patch(force_disable_caches=True):
        found = compiling.compiled(function)(x, weight)
    assert torch.allclose(found, function(x, weight), atol=1e-12)
    return sum(counts)


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "in_place"), [(alone, 1), (read_again, 0), (multiplied_too, 0), (computed, 0)]
)
def test_a_product_is_added_in_place_only_where_nobody_reads_what_lay_there(function, in_place, monkeypatch):
    assert compiled(function, torch.ops.higher_order.auto_functionalized, monkeypatch) == in_place


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [side_by_side, made_matrices_later, without_rows])
def test_three_matrices_side_by_side_are_multiplied_as_they_are(function, monkeypatch):
    assert compiled(function, torch.ops.clearhead.sum_of_products.default, monkeypatch) == 1


@needs_compiler
@pytest.mark.filterwarnings("ignore")
def test_turned_they_are_three_products_one_above_the_other(monkeypatch):
    assert compiled(side_by_side, torch.ops.aten.mm.default, monkeypatch) == 3


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [one_above_the_other, of_two_types, two])
def test_others_are_brought_together_first(function, monkeypatch):
    assert compiled(function, torch.ops.clearhead.sum_of_products.default, monkeypatch) == 0


def test_functions_are_compiled_with_equal_settings_so_that_they_share_what_is_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **settings: settings)
    assert compiling.compiled(alone) == compiling.compiled(computed)


def test_what_is_compiled_for_other_kernels_is_not_taken_for_these(monkeypatch):
    monkeypatch.setattr(compiling, "get_hash_for_files", lambda files: [Path(file).name for file in files])
    assert {"compiling.py", "feedforward.py", "norm.py", "product.py"} <= set(compiling.REWRITES.uuid())
