"""How a model learns where a token stands: added to the embedding, or worked into the attention.

Of the seven kinds, `order` and `fraction` are the two options that lectures try before the sinusoids, kept
for comparison: the first is not bounded, the second means another distance in every length.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.errors import TextError

PositionKind = Literal["sinusoidal", "learned", "rotary", "alibi", "none", "order", "fraction"]
ROTARY_BASE = 10000.0
Positions = Int[Tensor, "... positions"]
Vectors = Float[Tensor, "... positions width"]


def sinusoids(positions: Positions, width: int) -> Vectors:
    """sin and cos of position / 10000^(2i/width), in turn (Vaswani et al. 2017)."""
    even = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None] * 10000 ** (-even / width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[..., :width]


class NoPosition(nn.Module):
    """Adds nothing at the embedding: for models without positions, or with positions in the attention."""

    def forward(
        self, x: Vectors, positions: Positions, lengths: Int[Tensor, " batch"] | None = None
    ) -> Vectors:
        return x


class Sinusoidal(nn.Module):
    """Fixed waves, one pair of dimensions for each frequency (Vaswani et al. 2017)."""

    table: Tensor

    def __init__(self, width: int, max_length: int):
        super().__init__()
        self.register_buffer("table", sinusoids(torch.arange(max_length), width), persistent=False)

    def forward(
        self, x: Vectors, positions: Positions, lengths: Int[Tensor, " batch"] | None = None
    ) -> Vectors:
        return x + self.table[positions].to(x.dtype)


class Learned(nn.Module):
    """A learned vector for each position (Gehring et al. 2017)."""

    def __init__(self, width: int, max_length: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_length, width) * width**-0.5)

    def forward(
        self, x: Vectors, positions: Positions, lengths: Int[Tensor, " batch"] | None = None
    ) -> Vectors:
        return x + self.weight[positions]


class Order(nn.Module):
    """The order number itself, in every dimension."""

    def forward(
        self, x: Vectors, positions: Positions, lengths: Int[Tensor, " batch"] | None = None
    ) -> Vectors:
        return x + positions[..., None].to(x.dtype)


class Fraction(nn.Module):
    """The position as a share of the length; of the longest length where a text is still being written."""

    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(
        self, x: Vectors, positions: Positions, lengths: Int[Tensor, " batch"] | None = None
    ) -> Vectors:
        last = max(self.max_length - 1, 1) if lengths is None else (lengths[:, None] - 1).clamp(min=1)
        return x + (positions / last)[..., None].to(x.dtype)


class Relative(nn.Module):
    """Positions inside the attention; this base leaves queries, keys and scores as they are."""

    def turn(
        self, x: Float[Tensor, "batch heads positions size"], positions: Positions | None = None
    ) -> Tensor:
        """Queries or keys that stand at these positions; at 0, 1, 2 … if none are given."""
        return x

    def bias(self, queries: int, keys: int) -> Float[Tensor, "heads queries keys"] | None:
        """What is added to the scores; the queries are the last of the keys."""
        return None


class Rotary(Relative):
    """Turns queries and keys by an angle that grows with the position: only distance counts (Su et al. 2021)."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, size: int, max_length: int, base: float = ROTARY_BASE):
        super().__init__()
        half = size // 2
        angles = torch.arange(max_length)[:, None] * base ** (-torch.arange(half, dtype=torch.float32) / half)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def turn(
        self, x: Float[Tensor, "batch heads positions size"], positions: Positions | None = None
    ) -> Tensor:
        at = slice(x.shape[2]) if positions is None else positions
        # A head's axis before the positions: all heads turn alike.
        cosines, sines = (table[at].unsqueeze(-3).to(x.dtype) for table in (self.cosines, self.sines))
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Alibi(Relative):
    """Scores fall with distance, at another rate in each head (Press et al. 2022)."""

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)

    def bias(self, queries: int, keys: int) -> Float[Tensor, "heads queries keys"] | None:
        positions = torch.arange(keys, device=self.slopes.device)
        distance = (positions[keys - queries :, None] - positions).abs()
        return -self.slopes * distance


def make_position(kind: PositionKind, width: int, max_length: int) -> nn.Module:
    """What is added at the embedding."""
    match kind:
        case "sinusoidal":
            return Sinusoidal(width, max_length)
        case "learned":
            return Learned(width, max_length)
        case "order":
            return Order()
        case "fraction":
            return Fraction(max_length)
        case "rotary" | "alibi" | "none":
            return NoPosition()


def make_relative(
    kind: PositionKind, heads: int, size: int, max_length: int, base: float = ROTARY_BASE
) -> Relative:
    """What is worked into self-attention."""
    match kind:
        case "rotary":
            return Rotary(size, max_length, base)
        case "alibi":
            return Alibi(heads)
        case _:
            return Relative()


def check_length(positions: int, max_length: int) -> None:
    if positions > max_length:
        raise TextError(
            f"a text of {positions} tokens, and the model takes {max_length}: shorten or split it"
        )
