"""The tensors of one site in the steps of a search, put together along the hypotheses that it returned."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.inspection.edits import BY_QUERY
from clearhead.inspection.sites import BY_KEY, Site, position_axis
from clearhead.layers.attention import Attention
from clearhead.layers.searching import End, SearchLog


class SiteSteps:
    """The tensors that a site had in one pass: one of a full pass, one per step of a search."""

    def __init__(self, site: Site, log: SearchLog):
        self.site, self.log = site, log
        self.parts: list[tuple[int, Tensor]] = []
        """Each with its step."""
        in_attention = isinstance(site.module, Attention)
        self._by_key = in_attention and site.tensor in BY_KEY
        self._by_query = in_attention and site.tensor in BY_QUERY
        self._axis = position_axis(site.module, site.tensor)

    def add(self, tensor: Tensor) -> None:
        self.parts.append((self.log.step, tensor))

    def joined(self) -> Tensor:
        """One tensor with a row for each sentence, as a full pass over its returned hypothesis has it.

        What no step computed is 0, or -inf among scores: keys after a query, positions after the end.
        """
        last, tensor = self.parts[-1]
        if not last and len(self.parts) == 1 and self.log.ends is None:
            return tensor
        ends = self.log.ends or [End(last, row) for row in range(len(tensor))]
        return self._stacked([self._sentence(end) for end in ends], self._axis, axis=0)

    def _sentence(self, end: End) -> Tensor:
        """The positions of one hypothesis."""
        rows = []
        for step, part in self.parts:
            if step <= end.step:
                # A step reads out one position and drops its axis.
                part = part.unsqueeze(1) if part.dim() == 2 and not self.site.path else part
                row = self.log.row(end, step) if len(part) > 1 else 0
                rows.append(part[row : row + 1])
        return rows[-1] if self._by_key else self._stacked(rows, None, self._axis)

    def _stacked(self, tensors: Sequence[Tensor], padded: int | None, axis: int) -> Tensor:
        """Tensors one after the other along an axis, filled up along the axes in which they differ."""
        axes = [*([padded] if padded is not None else []), *([3] if self._by_query else [])]
        fill = float("-inf") if self.site.tensor in ("scores", "masked") else 0
        for one in axes:
            if one >= tensors[0].dim():
                continue
            most = max(tensor.shape[one] for tensor in tensors)
            tensors = [_filled(tensor, one, most, fill) for tensor in tensors]
        return torch.cat(list(tensors), axis) if len(tensors) > 1 else tensors[0]


def _filled(tensor: Tensor, axis: int, size: int, fill: float) -> Tensor:
    missing = size - tensor.shape[axis]
    if not missing:
        return tensor
    return F.pad(tensor, [0, 0] * (tensor.dim() - axis - 1) + [0, missing], value=fill)
