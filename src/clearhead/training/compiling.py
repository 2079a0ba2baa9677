"""How parts of a model are compiled: what torch's compiler is told beyond its defaults."""

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch import Tensor, fx
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files


def compiled(function: Callable) -> Callable:
    """The function, compiled for each shape that it meets."""
    options: dict[str, Any] = {"post_grad_custom_post_pass": IN_PLACE}
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


class AddsInPlace(CustomGraphPass):
    """Adds a product to what a kernel has made for this sum alone: `addmm` would copy that first.

    Such are the slopes that come around a sublayer, to which those that come through it are added.
    """

    def __call__(self, graph: fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.addmm.default):
            total, left, right = node.args
            if not node.kwargs and _is_made_for(total, node):
                with graph.inserting_before(node):
                    whole = (torch.ops.clearhead.add_product.default,)
                    given = {"total": total, "left": left, "right": right}
                    added = graph.call_function(torch.ops.higher_order.auto_functionalized, whole, given)
                    result = graph.call_function(getitem, (added, 1))
                added.meta["val"], result.meta = (None, node.meta["val"]), dict(node.meta)
                node.replace_all_uses_with(result)
                graph.erase_node(node)

    def uuid(self) -> Any:
        return get_hash_for_files((__file__,))


# One for all: functions compiled with another would not share what is compiled.
IN_PLACE = AddsInPlace()


def _is_made_for(total: fx.Node, node: fx.Node) -> bool:
    """Whether a kernel gave it, nobody else reads it, and it has a place for each number of the sum."""
    if total.target is not getitem or len(total.users) > 1:
        return False
    here, there = total.meta["val"], node.meta["val"]
    return (here.shape, here.dtype, here.stride()) == (there.shape, there.dtype, there.stride())
