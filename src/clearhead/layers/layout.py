"""How sentences lie in the rows of a batch: which place each word has, and which words see each other."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from clearhead.layers.mask import Causal, Lengths, Mask, Sentences
from clearhead.layers.positions import Places


@dataclass(frozen=True, eq=False)
class Padded:
    """One sentence in a row, from its beginning on; behind a source of that length comes padding."""

    lengths: Int[Tensor, " batch"]
    source_places: None = None
    target_places: None = None

    @property
    def source(self) -> Mask:
        """What sources see of themselves."""
        return Lengths(self.lengths)

    @property
    def target(self) -> Mask:
        """What targets see of themselves."""
        # Padding lies behind the words that are asked for, so the causal rule alone hides it.
        return Causal()

    @property
    def across(self) -> Mask:
        """What targets see of their sources."""
        return Lengths(self.lengths)


@dataclass(frozen=True, eq=False)
class Packed:
    """Several sentences in a row: each cell has its sentence's number in the row and its place in there."""

    source_sentences: Int[Tensor, "batch source"]
    source_places: Places
    target_sentences: Int[Tensor, "batch target"]
    target_places: Places
    lengths: None = None

    @property
    def source(self) -> Mask:
        return Sentences(self.source_sentences, self.source_sentences)

    @property
    def target(self) -> Mask:
        return Sentences(self.target_sentences, self.target_sentences) & Causal()

    @property
    def across(self) -> Mask:
        return Sentences(self.target_sentences, self.source_sentences)


Layout = Padded | Packed


@dataclass(frozen=True, eq=False)
class Plain:
    """Rows that each are one text, from its beginning or from anywhere on."""

    places: None = None

    @property
    def mask(self) -> Mask:
        """What words see of the words before them."""
        return Causal()


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows of several texts: each cell has its text's number in the row (0: none) and its place in there."""

    documents: Int[Tensor, "batch places"]
    places: Places

    @property
    def mask(self) -> Mask:
        return Sentences(self.documents, self.documents) & Causal()


TextLayout = Plain | Documents
