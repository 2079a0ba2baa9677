"""How sentences lie in the rows of a batch: the position of each token, and the masks.

A model takes any object with the attributes of `TextLayout` or `PairLayout`; write your own for other masks.
"""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from clearhead.layers.mask import Causal, LengthMask, Mask, SameSegment
from clearhead.layers.positions import Lengths, Positions


@runtime_checkable
class TextLayout(Protocol):
    """The rows of a model that reads one text."""

    @property
    def positions(self) -> Positions | None:
        """The position of each token in its text; None for 0, 1, 2 …"""

    @property
    def mask(self) -> Mask: ...


@dataclass(frozen=True, eq=False)
class Plain:
    """Each row is a single text, or a span of one."""

    mask: Mask = field(default_factory=Causal)
    positions: None = None


@dataclass(frozen=True, eq=False)
class PaddedText:
    """One text per row, padded after `lengths` tokens; all its tokens see each other."""

    lengths: Lengths
    positions: Positions | None = None

    @property
    def mask(self) -> Mask:
        return LengthMask(self.lengths)


@dataclass(frozen=True, eq=False)
class PackedText:
    """Several texts per row: each token has its text's number in the row (0 is padding).

    All tokens of a text see each other.
    """

    segments: Int[Tensor, "batch positions"]
    positions: Positions

    @property
    def mask(self) -> Mask:
        return SameSegment(self.segments, self.segments)


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows of several documents: each token has its document's number in the row (0 is padding)."""

    documents: Int[Tensor, "batch positions"]
    positions: Positions

    @property
    def mask(self) -> Mask:
        return SameSegment(self.documents, self.documents) & Causal()


@runtime_checkable
class PairLayout(Protocol):
    """The rows of a model with a source and a target."""

    @property
    def lengths(self) -> Lengths | None:
        """The lengths of the sources, where each row holds one."""

    @property
    def source_positions(self) -> Positions | None: ...
    @property
    def target_positions(self) -> Positions | None: ...
    @property
    def source_mask(self) -> Mask: ...
    @property
    def target_mask(self) -> Mask: ...
    @property
    def cross_mask(self) -> Mask:
        """Which source tokens each target token attends to."""
        ...


@dataclass(frozen=True, eq=False)
class Padded:
    """One sentence per row; sources are padded after `lengths` tokens."""

    lengths: Lengths
    source_positions: None = None
    target_positions: None = None

    @property
    def source_mask(self) -> Mask:
        return LengthMask(self.lengths)

    @property
    def target_mask(self) -> Mask:
        # Padding comes last, so the causal mask hides it from every token.
        return Causal()

    cross_mask = source_mask


@dataclass(frozen=True, eq=False)
class Packed:
    """Several sentences per row: each token has its sentence's number in the row (0 is padding)."""

    source_segments: Int[Tensor, "batch source"]
    source_positions: Positions
    target_segments: Int[Tensor, "batch target"]
    target_positions: Positions
    lengths: None = None

    @property
    def source_mask(self) -> Mask:
        return SameSegment(self.source_segments, self.source_segments)

    @property
    def target_mask(self) -> Mask:
        return SameSegment(self.target_segments, self.target_segments) & Causal()

    @property
    def cross_mask(self) -> Mask:
        return SameSegment(self.target_segments, self.source_segments)
