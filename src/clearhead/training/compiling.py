"""How parts of a model are compiled: what torch's compiler is told beyond its defaults."""

from collections.abc import Callable
from math import prod
from operator import getitem
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from clearhead.accel import kernels

aten = torch.ops.aten
# Queries, keys and values.
PARTS = 3


def compiled(function: Callable) -> Callable:
    """The function, compiled for each shape that it meets."""
    options: dict[str, Any] = {"post_grad_custom_post_pass": REWRITES}
    if hasattr(config.triton, "mix_order_reduction"):
        # Measured: one kernel for a norm's gradients, of input and weights, takes twice as long as two.
        options["triton.mix_order_reduction"] = False
    return torch.compile(function, dynamic=False, options=options)


@torch.library.custom_op("clearhead::add_product", mutates_args={"total"})
def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds a product to what is there."""
    total.addmm_(left, right)


@add_product.register_fake
def _(total: Tensor, left: Tensor, right: Tensor) -> None:
    pass


@torch.library.custom_op("clearhead::sum_of_products", mutates_args=())
def sum_of_products(first: Tensor, second: Tensor, third: Tensor, weight: Tensor) -> Tensor:
    """Three matrices side by side, times one; they need not be brought together for that."""
    if kernels.serve(first):
        from clearhead.accel.kernels import matmul

        if matmul.serves(first, second, third, weight):
            return matmul.sum_of_products(first, second, third, weight)
    out = first @ weight[: first.shape[1]]
    for part, rows in zip((second, third), weight.split(first.shape[1])[1:], strict=True):
        out.addmm_(part, rows)
    return out


@sum_of_products.register_fake
def _(first: Tensor, second: Tensor, third: Tensor, weight: Tensor) -> Tensor:
    return first.new_empty(first.shape[0], weight.shape[1])


class Rewrites(CustomGraphPass):
    """What is said otherwise before kernels are made of it."""

    def __call__(self, graph: fx.Graph) -> None:
        for target, rewrite in {aten.mm.default: multiply_parts, aten.addmm.default: add_in_place}.items():
            for node in graph.find_nodes(op="call_function", target=target):
                with graph.inserting_before(node):
                    new = rewrite(graph, *cast(tuple[fx.Node], node.args)) if not node.kwargs else None
                if new is not None:
                    node.replace_all_uses_with(new)
                    graph.erase_node(node)
        graph.eliminate_dead_code()

    def uuid(self) -> Any:
        # The shapes of what kernels give are part of what is compiled, and of nothing else that names it.
        files = sorted(map(str, Path(kernels.__file__).parent.glob("*.py")))
        return get_hash_for_files((__file__, *files))


def add_in_place(graph: fx.Graph, total: fx.Node, left: fx.Node, right: fx.Node) -> fx.Node | None:
    """Adds a product to what a kernel has made for this sum alone: `addmm` would copy that first.

    Such are the gradients that come around a sublayer, to which those that come through it are added.
    """
    here, rows, columns = _value(total), _value(left).shape[0], _value(right).shape[1]
    if total.target is not getitem or len(total.users) > 1 or here.shape != (rows, columns):
        return None
    if here.dtype != _value(left).dtype or not here.is_contiguous() or total in (left, right):
        return None
    whole = (torch.ops.clearhead.add_product.default,)
    given: dict[str, Any] = {"total": total, "left": left, "right": right}
    added = graph.call_function(torch.ops.higher_order.auto_functionalized, whole, given)
    result = graph.call_function(getitem, (added, 1))
    added.meta["val"], result.meta["val"] = (None, here), here
    return result


def multiply_parts(graph: fx.Graph, left: fx.Node, right: fx.Node) -> fx.Node | None:
    """Multiplies matrices that stand side by side as they are: to bring them together takes time.

    Such are the gradients of queries, keys and values, which were parts of one product.
    """
    if parts := _parts(graph, left):
        return _call(graph, torch.ops.clearhead.sum_of_products.default, *parts, right)
    is_turned = left.target is aten.permute.default and left.args[1] == [1, 0]
    if is_turned and (parts := _parts(graph, left.all_input_nodes[0])):
        turned = [_call(graph, aten.permute.default, part, [1, 0]) for part in parts]
        return _call(graph, aten.cat.default, [_call(graph, aten.mm.default, part, right) for part in turned])
    return None


def _parts(graph: fx.Graph, matrix: fx.Node) -> list[fx.Node]:
    """The three matrices that stand side by side in one; none if it is otherwise."""
    whole, rows = matrix, _value(matrix).shape[0]
    while whole.target is aten.reshape.default:
        whole = whole.all_input_nodes[0]
    if whole.target is not aten.cat.default or len(whole.args) < 2:
        return []
    parts, axis = cast(tuple[list[fx.Node], int], whole.args)
    shape, kinds = _value(parts[0]).shape, {(_value(part).shape, _value(part).dtype) for part in parts}
    if len(parts) != PARTS or len(kinds) > 1 or prod(shape[:axis]) != rows:
        return []
    return [_flat(graph, part, [rows, prod(shape[axis:])]) for part in parts]


def _flat(graph: fx.Graph, part: fx.Node, shape: list[int]) -> fx.Node:
    """A part as a matrix, the same for whoever asks: it might have to be copied."""
    behind = part.next
    if behind.target is aten.reshape.default and behind.args == (part, shape):
        return behind
    with graph.inserting_after(part):
        return _call(graph, aten.reshape.default, part, shape)


def _call(graph: fx.Graph, target: Any, *given: Any) -> fx.Node:
    node = graph.call_function(target, given)
    node.meta["val"] = target(*fx.map_arg(given, _value))
    return node


def _value(node: fx.Node) -> Tensor:
    """What stands for its value while nothing is computed."""
    return node.meta["val"]


# One for all: functions compiled with another would not share what is compiled.
REWRITES = Rewrites()
