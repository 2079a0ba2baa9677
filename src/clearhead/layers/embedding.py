"""Ids to vectors, with positions; and back to logits through the same matrix."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.accel import kernels
from clearhead.layers.positions import PositionKind, Positions, check_length, make_position

Vectors = Float[Tensor, "batch positions width"]


class Embedding(nn.Module):
    """A row of the matrix for each token, times √width, plus the position (Vaswani et al. 2017).

    Another `scale` may stand for √width: GPT-2 has 1 (Radford et al. 2019).
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        position: PositionKind,
        max_length: int,
        dropout: float,
        scale: float | None = None,
    ):
        super().__init__()
        self.scale = width**0.5 if scale is None else scale
        self.weight = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)
        self.position = make_position(position, width, max_length)
        self.max_length = max_length
        self.dropout = dropout

    def forward(
        self,
        tokens: Int[Tensor, "batch positions"],
        positions: Positions | None = None,
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Vectors:
        """The vectors of tokens that stand at these positions, each below `longest`; at 0, 1, 2 … if none are."""
        if positions is None:
            check_length(tokens.shape[1], self.max_length)
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.placed(self._rows(tokens), positions, lengths)

    def _rows(self, tokens: Int[Tensor, "batch positions"]) -> Vectors:
        if self.weight.is_cuda and torch.is_grad_enabled() and kernels.compilable():
            from clearhead.accel.kernels.embedding import look_up

            return look_up(tokens, self.weight)
        return F.embedding(tokens, self.weight)

    def placed(self, x: Vectors, positions: Positions, lengths: Int[Tensor, " batch"] | None) -> Vectors:
        """The rows of tokens with what their positions add, as they enter a stack."""
        x = self.position(x if self.scale == 1 else x * self.scale, positions, lengths)
        return F.dropout(x.to(_stream_type(x)), self.dropout, self.training)


def _stream_type(x: Tensor) -> torch.dtype:
    """The type in which the stream goes on: that of autocast on a GPU, where bytes are time."""
    return torch.get_autocast_dtype("cuda") if x.is_cuda and torch.is_autocast_enabled("cuda") else x.dtype
