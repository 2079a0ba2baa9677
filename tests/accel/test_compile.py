"""Graph rewrites change only the time that compiled code takes."""

from pathlib import Path
from shutil import which

import pytest
import torch
from torch import Tensor, nn

from clearhead.accel import compile

pytestmark = pytest.mark.accel
needs_compiler = pytest.mark.skipif(which("g++") is None, reason="needs g++")


@torch.library.custom_op("tests::two_outputs", mutates_args=())
def two_outputs(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin(), x.cos()


@two_outputs.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def single_use(x: Tensor, weight: Tensor) -> Tensor:
    skip, inner = two_outputs(x)
    return skip + inner @ weight


def used_twice(x: Tensor, weight: Tensor) -> Tensor:
    skip, inner = two_outputs(x)
    return (skip + inner @ weight) * skip


def also_a_factor(x: Tensor, weight: Tensor) -> Tensor:
    skip, _ = two_outputs(x)
    return skip + skip @ weight


def not_a_kernel_output(x: Tensor, weight: Tensor) -> Tensor:
    skip = x.tanh()
    return skip + skip.sin() @ weight


def side_by_side(x: Tensor, weight: Tensor) -> Tensor:
    """The form of the gradients of queries, keys and values."""
    parts = [part.unflatten(0, (2, -1)).unflatten(-1, (2, -1)) for part in (x.sin(), x.cos(), x.tanh())]
    matrix = torch.stack(parts, 2).flatten(2).flatten(0, 1)
    return torch.cat([matrix @ weight.repeat(3, 1), matrix.T @ x])


def reshaped_later(x: Tensor, weight: Tensor) -> Tensor:
    parts = [part.unflatten(0, (2, -1)) for part in (x.sin(), x.cos(), x.tanh())]
    product = torch.cat(parts, -1).flatten(0, 1) @ weight.repeat(3, 1)
    return two_outputs(product)[0] + two_outputs(parts[0].reshape(len(x), -1))[0]


def without_rows(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x[:0].sin(), x[:0].cos(), x[:0].tanh()], 1) @ weight.repeat(3, 1)


def two_dtypes(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x.sin().float(), x.cos(), x.tanh()], 1) @ weight.repeat(3, 1)


def stacked(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x.sin(), x.cos(), x.tanh()], 0) @ weight


def two_parts(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([x.sin(), x.cos()], 1) @ weight.repeat(2, 1)


def count_nodes(function, target, monkeypatch) -> int:
    """The number of nodes with this target in the compiled function; its results are checked, too."""
    counts: list[int] = []
    change = compile.Rewrites.__call__

    def counted(self, graph):
        change(self, graph)
        counts.append(len(graph.find_nodes(op="call_function", target=target)))

    monkeypatch.setattr(compile.Rewrites, "__call__", counted)
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, weight = torch.randn(16, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    with torch._inductor.config.patch(force_disable_caches=True):
        found = compile.compiled(function)(x, weight)
    assert torch.allclose(found, function(x, weight), atol=1e-12)
    return sum(counts)


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "inplace"), [(single_use, 1), (used_twice, 0), (also_a_factor, 0), (not_a_kernel_output, 0)]
)
def test_a_product_is_added_inplace_only_to_an_output_with_no_other_use(function, inplace, monkeypatch):
    assert count_nodes(function, torch.ops.higher_order.auto_functionalized, monkeypatch) == inplace


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [side_by_side, reshaped_later, without_rows])
def test_three_matrices_side_by_side_are_multiplied_without_concatenation(function, monkeypatch):
    assert count_nodes(function, torch.ops.clearhead.sum_of_products.default, monkeypatch) == 1


@needs_compiler
@pytest.mark.filterwarnings("ignore")
def test_transposed_they_become_three_products(monkeypatch):
    assert count_nodes(side_by_side, torch.ops.aten.mm.default, monkeypatch) == 3


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [stacked, two_dtypes, two_parts])
def test_other_matrices_are_concatenated(function, monkeypatch):
    assert count_nodes(function, torch.ops.clearhead.sum_of_products.default, monkeypatch) == 0


def test_functions_are_compiled_with_equal_options_so_that_they_share_code(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **settings: settings)
    assert compile.compiled(single_use) == compile.compiled(used_twice)


def test_cached_code_depends_on_the_source_of_the_kernels(monkeypatch):
    monkeypatch.setattr(compile, "get_hash_for_files", lambda files: [Path(file).name for file in files])
    assert {"compile.py", "feedforward.py", "norm.py", "matmul.py"} <= set(compile.REWRITES.uuid())


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def test_regions_are_compiled_only_while_active(monkeypatch):
    # Compiling itself is torch's business, and warns about its own parts.
    monkeypatch.setattr(torch, "compile", lambda forward, **settings: lambda *inputs: forward(*inputs) + 1)
    model = nn.Sequential(Doubled(), nn.Identity(), Doubled())
    x = torch.ones(2)
    with compile.CompiledRegions(model, {Doubled: "forward"}).active():
        assert all(("forward" in vars(part)) == isinstance(part, Doubled) for part in model)
        assert torch.equal(model(x), 7 * x)
    assert not any("forward" in vars(part) for part in model)
    assert torch.equal(model(x), 4 * x)
