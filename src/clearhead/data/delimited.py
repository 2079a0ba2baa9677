"""Documents as a model sees them: between a start and an end token, with the positions of their labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clearhead.data.store import PairStore, TextStore, TokenSequences

Numbers = NDArray[np.int64]
Delimiters = tuple[int, int]
"""The ids of the start and the end token."""


class DelimitedDocuments:
    """Documents by number, each between two delimiters, or bare where `delimiters` is None.

    Of prompts with answers, only the answers and the end token are labels.
    """

    def __init__(self, store: TextStore | PairStore, delimiters: Delimiters | None):
        self.delimiters = delimiters
        self._sides: Sequence[TokenSequences] = (
            (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
        )
        counts = [np.diff(side.offsets) for side in self._sides]
        self._tokens: Numbers = np.stack(counts).sum(0)
        self._prompt_tokens: Numbers = counts[0] if len(counts) == 2 else np.zeros_like(counts[0])
        self.lengths: Numbers = self._tokens + (2 if delimiters else 0)
        # The first position of a document is never a label: nothing precedes it.
        self._first_label: Numbers = np.maximum(self._prompt_tokens + bool(delimiters), 1)

    def __len__(self) -> int:
        return len(self.lengths)

    def tokens(self, documents: Numbers, positions: Numbers) -> NDArray[np.int32]:
        """The ids at positions of documents."""
        inside = positions - bool(self.delimiters)
        found = self._ids(documents, np.clip(inside, 0, self._tokens[documents] - 1))
        if self.delimiters:
            found[inside < 0] = self.delimiters[0]
            found[inside == self._tokens[documents]] = self.delimiters[1]
        return found

    def is_label(self, documents: Numbers, positions: Numbers) -> NDArray[np.bool_]:
        """Whether the tokens at positions of documents count towards the loss."""
        return positions >= self._first_label[documents]

    def _ids(self, documents: Numbers, inside: Numbers) -> NDArray[np.int32]:
        first = self._sides[0]
        if len(self._sides) == 1:
            return first.ids[first.offsets[documents] + inside].astype(np.int32)
        second = self._sides[1]
        beyond = inside - self._prompt_tokens[documents]
        ids = np.empty(len(inside), dtype=np.int32)
        in_prompt = beyond < 0
        ids[in_prompt] = first.ids[first.offsets[documents[in_prompt]] + inside[in_prompt]]
        ids[~in_prompt] = second.ids[second.offsets[documents[~in_prompt]] + beyond[~in_prompt]]
        return ids
