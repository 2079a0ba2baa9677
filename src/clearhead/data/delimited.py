"""Documents as a model reads them: between the signs for their start and end, and which tokens are learned."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clearhead.data.store import PairStore, Side, TextStore

Numbers = NDArray[np.int64]
Signs = tuple[int, int]


class Enclosed:
    """Documents by number; each is its tokens between two signs, or the tokens alone where there are no signs.

    Of prompts with their answers, only the answers are learned, and the sign after them.
    """

    def __init__(self, store: TextStore | PairStore, signs: Signs | None):
        self.signs = signs
        self._sides: Sequence[Side] = (
            (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
        )
        counts = [np.diff(side.offsets) for side in self._sides]
        self._words: Numbers = np.stack(counts).sum(0)
        # Tokens of the prompt, where there is one.
        self._before: Numbers = counts[0] if len(counts) == 2 else np.zeros_like(counts[0])
        self.lengths: Numbers = self._words + (2 if signs else 0)
        # The first position that is a label, which is never the first position of all.
        self._learned: Numbers = np.maximum(self._before + bool(signs), 1)

    def __len__(self) -> int:
        return len(self.lengths)

    def tokens(self, documents: Numbers, positions: Numbers) -> NDArray[np.int32]:
        """The ids at positions of documents."""
        inside = positions - bool(self.signs)
        found = self._ids(documents, np.clip(inside, 0, self._words[documents] - 1))
        if self.signs:
            found[inside < 0] = self.signs[0]
            found[inside == self._words[documents]] = self.signs[1]
        return found

    def learned(self, documents: Numbers, positions: Numbers) -> NDArray[np.bool_]:
        """Whether the tokens at positions of documents are to be learned."""
        return positions >= self._learned[documents]

    def _ids(self, documents: Numbers, inside: Numbers) -> NDArray[np.int32]:
        first = self._sides[0]
        if len(self._sides) == 1:
            return first.ids[first.offsets[documents] + inside].astype(np.int32)
        second = self._sides[1]
        beyond = inside - self._before[documents]
        ids = np.empty(len(inside), dtype=np.int32)
        here = beyond < 0
        ids[here] = first.ids[first.offsets[documents[here]] + inside[here]]
        ids[~here] = second.ids[second.offsets[documents[~here]] + beyond[~here]]
        return ids
