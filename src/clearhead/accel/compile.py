"""torch.compile for parts of a model, with graph rewrites that its defaults lack."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from operator import getitem
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from clearhead.accel import kernels

aten = torch.ops.aten
# Queries, keys and values.
PARTS = 3


def compiled(function: Callable) -> Callable:
    """The function, compiled for each shape it meets."""
    options: dict[str, Any] = {"post_grad_custom_post_pass": REWRITES}
    if hasattr(config.triton, "mix_order_reduction"):
        # Measured: one kernel for a norm's gradients, of input and weights, takes twice as long as two.
        options["triton.mix_order_reduction"] = False
    return torch.compile(function, dynamic=False, options=options)


class CompiledRegions:
    """The compiled methods of a model's modules, given by module class; used only inside `active`."""

    def __init__(self, model: nn.Module, methods: Mapping[type[nn.Module], str]):
        # One compilation serves all modules of a class: dynamo keeps it with the code, weights are inputs.
        self._compiled = [
            (module, name, compiled(getattr(module, name)))
            for module in model.modules()
            for kind, name in methods.items()
            if isinstance(module, kind)
        ]

    @contextmanager
    def active(self) -> Iterator[None]:
        """The model runs its compiled methods inside, its own again afterwards."""
        for module, name, function in self._compiled:
            setattr(module, name, function)
        try:
            yield
        finally:
            for module, name, _ in self._compiled:
                delattr(module, name)


@torch.library.custom_op("clearhead::add_product", mutates_args={"total"})
def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds left · right to the total in place."""
    total.addmm_(left, right)


@add_product.register_fake
def _(total: Tensor, left: Tensor, right: Tensor) -> None:
    pass


@torch.library.custom_op("clearhead::sum_of_products", mutates_args=())
def sum_of_products(first: Tensor, second: Tensor, third: Tensor, weight: Tensor) -> Tensor:
    """Three matrices side by side times one, without concatenating them."""
    if kernels.supports(first):
        from clearhead.accel.kernels import matmul

        if matmul.supports_tiles(first, second, third, weight):
            return matmul.sum_of_products(first, second, third, weight)
    out = first @ weight[: first.shape[1]]
    for part, rows in zip((second, third), weight.split(first.shape[1])[1:], strict=True):
        out.addmm_(part, rows)
    return out


@sum_of_products.register_fake
def _(first: Tensor, second: Tensor, third: Tensor, weight: Tensor) -> Tensor:
    return first.new_empty(first.shape[0], weight.shape[1])


class Rewrites(CustomGraphPass):
    """The rewrites of a graph, applied before kernels are generated."""

    def __call__(self, graph: fx.Graph) -> None:
        for target, rewrite in {aten.mm.default: multiply_parts, aten.addmm.default: add_inplace}.items():
            for node in graph.find_nodes(op="call_function", target=target):
                with graph.inserting_before(node):
                    new = rewrite(graph, *cast(tuple[fx.Node], node.args)) if not node.kwargs else None
                if new is not None:
                    node.replace_all_uses_with(new)
                    graph.erase_node(node)
        graph.eliminate_dead_code()

    def uuid(self) -> Any:
        # Compiled code depends on the output shapes of our kernels, which its other cache keys leave out.
        files = sorted(map(str, Path(kernels.__file__).parent.glob("*.py")))
        return get_hash_for_files((__file__, *files))


def add_inplace(graph: fx.Graph, total: fx.Node, left: fx.Node, right: fx.Node) -> fx.Node | None:
    """An in-place sum where the total is the output of a kernel and has no other use; addmm would copy it.

    Such totals are the gradients of the residual stream, to which those of a sublayer are added.
    """
    here, rows, columns = _value(total), _value(left).shape[0], _value(right).shape[1]
    if total.target is not getitem or len(total.users) > 1 or here.shape != (rows, columns):
        return None
    if here.dtype != _value(left).dtype or not here.is_contiguous() or total in (left, right):
        return None
    operator = (torch.ops.clearhead.add_product.default,)
    inputs: dict[str, Any] = {"total": total, "left": left, "right": right}
    added = graph.call_function(torch.ops.higher_order.auto_functionalized, operator, inputs)
    result = graph.call_function(getitem, (added, 1))
    added.meta["val"], result.meta["val"] = (None, here), here
    return result


def multiply_parts(graph: fx.Graph, left: fx.Node, right: fx.Node) -> fx.Node | None:
    """Products of three concatenated matrices without the concatenation.

    Such matrices are the gradients of queries, keys and values, which come from one product.
    """
    if parts := _parts(graph, left):
        return _call(graph, torch.ops.clearhead.sum_of_products.default, *parts, right)
    is_transposed = left.target is aten.permute.default and left.args[1] == [1, 0]
    if is_transposed and (parts := _parts(graph, left.all_input_nodes[0])):
        transposed = [_call(graph, aten.permute.default, part, [1, 0]) for part in parts]
        products = [_call(graph, aten.mm.default, part, right) for part in transposed]
        return _call(graph, aten.cat.default, products)
    return None


def _parts(graph: fx.Graph, matrix: fx.Node) -> list[fx.Node]:
    """The three matrices that were concatenated into one; empty if it was made otherwise."""
    whole, rows = matrix, _value(matrix).shape[0]
    while whole.target is aten.reshape.default:
        whole = whole.all_input_nodes[0]
    if whole.target is not aten.cat.default or len(whole.args) < 2:
        return []
    parts, axis = cast(tuple[list[fx.Node], int], whole.args)
    shape, kinds = _value(parts[0]).shape, {(_value(part).shape, _value(part).dtype) for part in parts}
    if len(parts) != PARTS or len(kinds) > 1 or prod(shape[:axis]) != rows:
        return []
    return [_matrix(graph, part, [rows, prod(shape[axis:])]) for part in parts]


def _matrix(graph: fx.Graph, part: fx.Node, shape: list[int]) -> fx.Node:
    """A part reshaped to a matrix; always the same node, because reshaping may copy."""
    following = part.next
    if following.target is aten.reshape.default and following.args == (part, shape):
        return following
    with graph.inserting_after(part):
        return _call(graph, aten.reshape.default, part, shape)


def _call(graph: fx.Graph, target: Any, *args: Any) -> fx.Node:
    node = graph.call_function(target, args)
    node.meta["val"] = target(*fx.map_arg(args, _value))
    return node


def _value(node: fx.Node) -> Tensor:
    """The fake tensor that stands for the node's value."""
    return node.meta["val"]


# A single instance: functions compiled with different ones would not share compiled code.
REWRITES = Rewrites()
