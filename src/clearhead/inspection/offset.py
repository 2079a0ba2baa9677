"""Where the tokens of a pass stand: a cached step begins where the one before it ended."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from clearhead.layers.embedding import Embedding


class PositionOffset:
    """The position of the first token in the current pass: above 0 in cached steps."""

    first = 0
    """In the first row."""
    in_full_row = 0
    """In the row with the most tokens; others are padded on the left."""

    @contextmanager
    def tracking(self, model: nn.Module) -> Iterator[None]:
        thread = threading.get_ident()

        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if threading.get_ident() == thread:
                positions = args[1] if len(args) > 1 else kwargs.get("positions")
                if positions is None or not positions.numel():
                    self.first = self.in_full_row = 0
                else:
                    self.first = int(positions.flatten()[0])
                    self.in_full_row = int(positions.max()) - positions.shape[-1] + 1

        with ExitStack() as stack:
            for module in model.modules():
                if isinstance(module, Embedding):
                    stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
            yield
