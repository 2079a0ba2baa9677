"""Token embeddings with positions."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.accel import kernels
from clearhead.layers.positions import Lengths, Positions, check_length, make_position

Tokens = Int[Tensor, "batch positions"]
Vectors = Float[Tensor, "batch positions width"]


class Embedding(nn.Module):
    """The token's vector times √width, plus its position (Vaswani et al. 2017).

    `position` is a name in POSITIONS or a module of your own. `scale` replaces √width: GPT-2 has 1
    (Radford et al. 2019). With `token_types`, a token also has the vector of its type, such as the number of
    its sentence in a pair; `norm` normalises the sum (Devlin et al. 2019).
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        position: str | nn.Module,
        max_positions: int,
        dropout: float,
        scale: float | None = None,
        token_types: int = 0,
        norm: nn.Module | None = None,
    ):
        super().__init__()
        self.scale = width**0.5 if scale is None else scale
        self.weight = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)
        own = isinstance(position, nn.Module)
        self.position = position if own else make_position(position, width, max_positions)
        self.norm = nn.Identity() if norm is None else norm
        self.max_positions = max_positions
        self.dropout = dropout
        self.type_weight = None
        if token_types:
            # At first, types say nothing; what an encoder has learned without them stays as it is.
            self.type_weight = nn.Parameter(torch.zeros(token_types, width))

    def forward(
        self,
        tokens: Tokens,
        positions: Positions | None = None,
        lengths: Lengths | None = None,
        token_types: Tokens | None = None,
    ) -> Vectors:
        """The vectors of tokens at these positions, each below `max_positions`; at 0, 1, 2 … by default.

        Tokens have type 0 by default.
        """
        if positions is None:
            check_length(tokens.shape[1], self.max_positions)
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        look_up = F.embedding
        if self.weight.is_cuda and torch.is_grad_enabled() and kernels.compilable():
            from clearhead.accel.kernels.embedding import look_up
        x = look_up(tokens, self.weight)
        if self.type_weight is not None:
            x = x + (self.type_weight[0] if token_types is None else self.type_vectors(token_types))
        return self.add_positions(x, positions, lengths)

    def type_vectors(self, token_types: Tokens) -> Vectors:
        """The vectors of token types, as a product: its gradient is fast where few types have many tokens."""
        assert self.type_weight is not None
        numbers = torch.arange(len(self.type_weight), device=token_types.device)
        return (token_types[..., None] == numbers).to(self.type_weight.dtype) @ self.type_weight

    def add_positions(self, x: Vectors, positions: Positions, lengths: Lengths | None) -> Vectors:
        """Scaled token vectors plus positions, after norm and dropout."""
        x = self.norm(self.position(x if self.scale == 1 else x * self.scale, positions, lengths))
        return F.dropout(stream_of(x), self.dropout) if self.training else stream_of(x)


def stream_of(x: Vectors) -> Vectors:
    """The start of the residual stream: on a GPU it has the type of autocast, to save memory traffic."""
    autocast = x.is_cuda and torch.is_autocast_enabled("cuda")
    return x.to(torch.get_autocast_dtype("cuda")) if autocast else x
