"""Vectors compared: which words of a vocabulary lie near one, and how alike positions are."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.layers.positions import Alibi, PositionKind, Relative, Rotary

Matrix = Float[Tensor, "rows width"]


def nearest(
    matrix: Matrix, vector: Float[Tensor, " width"], count: int, left_out: Collection[int] = ()
) -> list[tuple[int, float]]:
    """The rows of a matrix that point the most like a vector, with their cosines; some are left out."""
    cosines = F.cosine_similarity(matrix, vector[None], dim=-1)
    cosines[list(left_out)] = -2.0
    best = cosines.topk(min(count, len(cosines) - len(left_out)))
    return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))


@dataclass(frozen=True)
class ComparedPlaces:
    """What a kind of position says of each position, and how alike it makes positions that lie apart."""

    kind: PositionKind
    rows: Float[Tensor, "positions features"]
    """What is added; cosines of the angles (rotary); what a distance adds to the scores of a head (alibi)."""
    similarity: Float[Tensor, "positions positions"]
    """Cosine of two rows; of a query and an equal key that are turned (rotary); the mean bias (alibi)."""


@torch.no_grad()
def compared_places(
    kind: PositionKind,
    position: nn.Module,
    relative: Relative,
    positions: int,
    width: int,
    device: torch.device | str = "cpu",
) -> ComparedPlaces | None:
    """The first positions of a model's positions, on the processor; None where it has none."""
    match relative:
        case Rotary():
            angles = relative.cosines[:positions]
            turned = relative.rotate(torch.ones(1, 1, positions, 2 * angles.shape[1], device=device))[0, 0]
            return ComparedPlaces(kind, angles.cpu(), _cosines(turned.cpu()))
        case Alibi():
            bias = relative.bias(positions, positions)
            assert bias is not None
            return ComparedPlaces(kind, bias[:, :, 0].T.cpu(), bias.mean(0).cpu())
    if kind == "none":
        return None
    at, length = torch.arange(positions, device=device), torch.tensor([positions], device=device)
    rows = position(torch.zeros(1, positions, width, device=device), at, length)[0].cpu()
    return ComparedPlaces(kind, rows, _cosines(rows))


def _cosines(rows: Float[Tensor, "positions width"]) -> Float[Tensor, "positions positions"]:
    unit = F.normalize(rows, dim=-1)
    return unit @ unit.T
