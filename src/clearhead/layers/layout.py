"""How sentences lie in the rows of a batch: which position each token has, and which tokens see each other."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from clearhead.layers.mask import Causal, Lengths, Mask, SameSegment
from clearhead.layers.positions import Positions


@dataclass(frozen=True, eq=False)
class Padded:
    """One sentence in a row, from its beginning on; behind a source of that length comes padding."""

    lengths: Int[Tensor, " batch"]
    source_positions: None = None
    target_positions: None = None

    @property
    def source(self) -> Mask:
        """What sources see of themselves."""
        return Lengths(self.lengths)

    @property
    def target(self) -> Mask:
        """What targets see of themselves."""
        # Padding lies behind the tokens that are asked for, so the causal rule alone hides it.
        return Causal()

    @property
    def across(self) -> Mask:
        """What targets see of their sources."""
        return Lengths(self.lengths)


@dataclass(frozen=True, eq=False)
class Packed:
    """Several sentences in a row: each cell has its sentence's number in the row and its position in there."""

    source_segments: Int[Tensor, "batch source"]
    source_positions: Positions
    target_segments: Int[Tensor, "batch target"]
    target_positions: Positions
    lengths: None = None

    @property
    def source(self) -> Mask:
        return SameSegment(self.source_segments, self.source_segments)

    @property
    def target(self) -> Mask:
        return SameSegment(self.target_segments, self.target_segments) & Causal()

    @property
    def across(self) -> Mask:
        return SameSegment(self.target_segments, self.source_segments)


Layout = Padded | Packed


@dataclass(frozen=True, eq=False)
class Plain:
    """Rows that each are one text, from its beginning or from anywhere on."""

    positions: None = None

    @property
    def mask(self) -> Mask:
        """What tokens see of the tokens before them."""
        return Causal()


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows of several texts: each cell has its text's number in the row (0: none) and its position in there."""

    documents: Int[Tensor, "batch positions"]
    positions: Positions

    @property
    def mask(self) -> Mask:
        return SameSegment(self.documents, self.documents) & Causal()


TextLayout = Plain | Documents
