"""Comparing vectors: nearest rows of a matrix, sums and maps of them, and the similarity of positions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.layers.positions import Alibi, Fraction, Learned, Order, Relative, Rotary, Sinusoidal

Matrix = Float[Tensor, "rows width"]
POSITIONS = (Rotary, Alibi, Sinusoidal, Learned, Order, Fraction)
"""The kinds of position, whose names are those of the settings."""


class Neighbour(NamedTuple):
    """A word or token, the cosine of its vector with another one, and its row."""

    word: str
    cosine: float
    id: int


@dataclass(frozen=True, eq=False)
class WordInText:
    """A word in the context of a text."""

    text: str
    vector: Float[Tensor, " width"]
    near: Sequence[Neighbour]
    """The nearest by static vectors."""
    weights: Sequence[tuple[str, float]] = ()
    """How much it attends to the words of the text, where one attention made the vector."""


def nearest(
    matrix: Matrix, vector: Float[Tensor, " width"], count: int, exclude: Collection[int] = ()
) -> list[tuple[int, float]]:
    """The rows of a matrix with the highest cosine to a vector, and those cosines."""
    if not vector.any():
        raise SettingsError("words: their vector is zero, which has no direction; choose other words")
    cosines = F.cosine_similarity(matrix, vector[None], dim=-1)
    cosines[list(exclude)] = -2.0
    best = cosines.topk(min(count, len(cosines) - len(exclude)))
    return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))


def combined(plus: Matrix, minus: Matrix) -> Float[Tensor, " width"]:
    """The sum of unit vectors less that of others: king - man + woman (Mikolov et al. 2013)."""
    return F.normalize(plus, dim=-1).sum(0) - F.normalize(minus, dim=-1).sum(0)


def principal_components(rows: Matrix, count: int = 2) -> tuple[Float[Tensor, "rows components"], float]:
    """The coordinates of rows along the directions in which they vary most, and their share of the variance.

    Each direction points to where its largest entry is positive, so that a map never flips.
    """
    centred = rows - rows.mean(0)
    _, sizes, directions = torch.linalg.svd(centred, full_matrices=False)
    directions, variance = directions[:count], sizes**2
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    coordinates = centred @ (directions * largest.sign()).T
    share = float(variance[:count].sum() / variance.sum().clamp(min=1e-30))
    return F.pad(coordinates, (0, count - coordinates.shape[1])), share


@dataclass(frozen=True)
class PositionSimilarity:
    """The encoding of each position, and how similar it makes any two of them."""

    kind: str
    rows: Float[Tensor, "positions features"]
    """The added vectors; for rotary, the cosines of the angles; for ALiBi, each head's bias by distance."""
    similarity: Float[Tensor, "positions positions"]
    """The cosine of two rows; for rotary, of two equal vectors after rotation; for ALiBi, the mean bias."""


def position_kind(position: nn.Module, relative: nn.Module) -> str:
    """The kind of position that an embedding and an attention implement."""
    kinds = (kind for one in (relative, position) for kind in POSITIONS if isinstance(one, kind))
    return next((kind.__name__.lower() for kind in kinds), "none")


@torch.no_grad()
def position_similarity(
    position: nn.Module, relative: Relative, positions: int, width: int, device: torch.device | str = "cpu"
) -> PositionSimilarity | None:
    """The similarity of a model's first positions, on the CPU; None if it has no positions."""
    kind = position_kind(position, relative)
    match relative:
        case Rotary():
            angles = relative.cosines[:positions]
            rotated = relative.rotate(torch.ones(1, 1, positions, 2 * angles.shape[1], device=device))[0, 0]
            return PositionSimilarity(kind, angles.cpu(), _cosines(rotated.cpu()))
        case Alibi():
            bias = relative.bias(positions, positions)
            assert bias is not None
            return PositionSimilarity(kind, bias[:, :, 0].T.cpu(), bias.mean(0).cpu())
    if kind == "none":
        return None
    at, length = torch.arange(positions, device=device), torch.tensor([positions], device=device)
    rows = position(torch.zeros(1, positions, width, device=device), at, length)[0].cpu()
    return PositionSimilarity(kind, rows, _cosines(rows))


def _cosines(rows: Float[Tensor, "positions width"]) -> Float[Tensor, "positions positions"]:
    unit = F.normalize(rows, dim=-1)
    return unit @ unit.T
