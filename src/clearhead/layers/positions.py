"""How a model knows the position of a token: added to the embedding, or worked into self-attention.

`order` and `fraction` are what lectures try before sinusoids, kept for comparison: the first is unbounded,
the second means a different distance in every length.
"""

from collections.abc import Callable
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.errors import TextError
from clearhead.layers.choices import OneOf
from clearhead.layers.mask import distances

ROTARY_BASE = 10000.0
Positions = Int[Tensor, "... positions"]
Lengths = Int[Tensor, " batch"]
Vectors = Float[Tensor, "... positions width"]
Heads = Float[Tensor, "batch heads positions size"]
Bias = Float[Tensor, "heads queries keys"]


def sinusoids(positions: Positions, width: int) -> Vectors:
    """sin and cos of position / 10000^(2i/width), alternating (Vaswani et al. 2017)."""
    even = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None] * 10000 ** (-even / width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[..., :width]


class NoPosition(nn.Module):
    """Adds nothing to the embedding."""

    def forward(self, x: Vectors, positions: Positions, lengths: Lengths | None = None) -> Vectors:
        return x


class Sinusoidal(nn.Module):
    """Fixed sines and cosines, one pair of dimensions per frequency (Vaswani et al. 2017)."""

    table: Tensor

    def __init__(self, width: int, max_positions: int):
        super().__init__()
        self.register_buffer("table", sinusoids(torch.arange(max_positions), width), persistent=False)

    def forward(self, x: Vectors, positions: Positions, lengths: Lengths | None = None) -> Vectors:
        return x + self.table[positions].to(x.dtype)


class Learned(nn.Module):
    """A learned vector for each position (Gehring et al. 2017)."""

    def __init__(self, width: int, max_positions: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_positions, width) * width**-0.5)

    def forward(self, x: Vectors, positions: Positions, lengths: Lengths | None = None) -> Vectors:
        return x + self.weight[positions]


class Order(nn.Module):
    """The position itself, in every dimension."""

    def forward(self, x: Vectors, positions: Positions, lengths: Lengths | None = None) -> Vectors:
        return x + positions[..., None].to(x.dtype)


class Fraction(nn.Module):
    """The position divided by the last one of the text, or by `max_positions` - 1 during generation."""

    def __init__(self, max_positions: int):
        super().__init__()
        self.max_positions = max_positions

    def forward(self, x: Vectors, positions: Positions, lengths: Lengths | None = None) -> Vectors:
        last = max(self.max_positions - 1, 1) if lengths is None else (lengths[:, None] - 1).clamp(min=1)
        return x + (positions / last)[..., None].to(x.dtype)


class Relative(nn.Module):
    """Positions inside self-attention; this base changes neither queries and keys nor scores."""

    def rotate(self, x: Heads, positions: Positions | None = None) -> Tensor:
        """Queries or keys at these positions; at 0, 1, 2 … if none are given."""
        return x

    def bias(self, queries: int, keys: int) -> Bias | None:
        """Added to the scores; the queries are the last of the keys."""
        return None


class Rotary(Relative):
    """Rotates queries and keys by angles proportional to the position (Su et al. 2021)."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, size: int, max_positions: int, base: float = ROTARY_BASE):
        super().__init__()
        half = size // 2
        frequencies = base ** (-torch.arange(half, dtype=torch.float32) / half)
        angles = torch.arange(max_positions)[:, None] * frequencies
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def rotate(self, x: Heads, positions: Positions | None = None) -> Tensor:
        at = slice(x.shape[2]) if positions is None else positions
        # All heads rotate alike: their axis comes before the positions.
        cosines, sines = (table[at].unsqueeze(-3).to(x.dtype) for table in (self.cosines, self.sines))
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Alibi(Relative):
    """Scores fall linearly with distance, more steeply in some heads (Press et al. 2022)."""

    head_slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        head_slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("head_slopes", head_slopes[:, None, None], persistent=False)

    def bias(self, queries: int, keys: int) -> Bias | None:
        return -self.head_slopes * distances(queries, keys, self.head_slopes.device).abs()


POSITIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "none": lambda width, max_positions: NoPosition(),
    "order": lambda width, max_positions: Order(),
    "fraction": lambda width, max_positions: Fraction(max_positions),
}
"""What makes each position module from (width, max_positions); its `forward` is that of `NoPosition`.

Add your own here or to RELATIVE_POSITIONS to use it in settings.
"""
RELATIVE_POSITIONS: dict[str, Callable[[int, int, int, float], Relative]] = {
    "rotary": lambda heads, size, max_positions, base: Rotary(size, max_positions, base),
    "alibi": lambda heads, size, max_positions, base: Alibi(heads),
}
"""What makes each kind of relative position from (heads, head size, max_positions, rotary_base)."""
PositionKind = Annotated[str, OneOf(POSITIONS, RELATIVE_POSITIONS)]


def make_position(kind: str, width: int, max_positions: int) -> nn.Module:
    """The module that adds positions to the embedding."""
    OneOf(POSITIONS, RELATIVE_POSITIONS).check(kind)
    return POSITIONS[kind](width, max_positions) if kind in POSITIONS else NoPosition()


def make_relative(
    kind: str, heads: int, size: int, max_positions: int, base: float = ROTARY_BASE
) -> Relative:
    """The module that works positions into self-attention."""
    OneOf(POSITIONS, RELATIVE_POSITIONS).check(kind)
    relative = RELATIVE_POSITIONS.get(kind)
    return relative(heads, size, max_positions, base) if relative else Relative()


def check_length(tokens: int, max_positions: int) -> None:
    if tokens > max_positions:
        raise TextError(
            f"the text has {tokens} tokens, but the model takes at most {max_positions}; shorten or split it"
        )
