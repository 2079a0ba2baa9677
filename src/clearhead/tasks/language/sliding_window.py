"""Texts longer than a model's context: where a row is full, its older half is forgotten."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.models.cuda_graph import Recorded, RecordedState
from clearhead.models.gpt import GPT, GPTState


class SlidingState:
    """A state, and the words that it has read, which end together as its rows do."""

    def __init__(
        self,
        inner: GPTState | RecordedState,
        words: Int[Tensor, "rows places"],
        lengths: Int[Tensor, " rows"],
    ):
        self.inner, self.words, self.lengths = inner, words, lengths

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        self.inner.select(rows)
        self.words, self.lengths = self.words[rows], self.lengths[rows]


class Sliding:
    """The steps of a model without an end; a text alone slides where it slides beside others."""

    def __init__(self, model: GPT | Recorded, room: int):
        self.model, self.room = model, min(room, model.config.longest)

    def start(self, texts: Sequence[Sequence[int]]) -> SlidingState:
        """Reads the last words of each text that fit, but for one: the first step is given it."""
        fitting = [text[-self.model.config.longest : -1] for text in texts]
        words, lengths = left_padded(fitting, self.model.readout_weight.device)
        return self._read(words, lengths)

    def step(self, words: Int[Tensor, " rows"], state: SlidingState) -> Float[Tensor, "rows vocabulary"]:
        longest = self.model.config.longest
        if state.inner.length == longest:
            kept = state.lengths.where(state.lengths < longest, longest // 2)
            most = int(kept.max())
            moved = self._read(state.words[:, state.words.shape[1] - most :], kept)
            state.inner, state.words, state.lengths = moved.inner, moved.words, moved.lengths
        logits = self.model.step(words, state.inner)  # pyright: ignore[reportArgumentType]
        state.words, state.lengths = torch.cat([state.words, words[:, None]], 1), state.lengths + 1
        return logits

    def _read(self, words: Int[Tensor, "rows places"], lengths: Int[Tensor, " rows"]) -> SlidingState:
        return SlidingState(self.model.start(words, lengths, self.room), words, lengths)


def left_padded(
    texts: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "rows places"], Int[Tensor, " rows"]]:
    """Texts in rows that end together, and how long each is."""
    longest = max(map(len, texts), default=0)
    rows = [[0] * (longest - len(text)) + list(text) for text in texts]
    words = torch.tensor(rows, dtype=torch.long, device=device).view(len(texts), longest)
    return words, torch.tensor([len(text) for text in texts], device=device)
