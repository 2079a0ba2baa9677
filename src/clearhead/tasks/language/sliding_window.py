"""Texts longer than a model's context: where a row is full, its older half is forgotten."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.models.cuda_graph import CudaGraphGPT, CudaGraphState
from clearhead.models.gpt import GPT
from clearhead.models.state import GPTState


class SlidingState:
    """A state, and the tokens that it has read, which end together as its rows do."""

    def __init__(
        self,
        inner: GPTState | CudaGraphState,
        tokens: Int[Tensor, "rows positions"],
        lengths: Int[Tensor, " rows"],
    ):
        self.inner, self.tokens, self.lengths = inner, tokens, lengths

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        self.inner.select(rows)
        self.tokens, self.lengths = self.tokens[rows], self.lengths[rows]


class Sliding:
    """The steps of a model without an end; a text alone slides where it slides beside others."""

    def __init__(self, model: GPT | CudaGraphGPT, room: int):
        self.model, self.room = model, min(room, model.config.context_length)

    def start(self, texts: Sequence[Sequence[int]]) -> SlidingState:
        """Reads the last tokens of each text that fit, but for one: the first step is given it."""
        fitting = [text[-self.model.config.context_length : -1] for text in texts]
        tokens, lengths = left_padded(fitting, self.model.readout_weight.device)
        return self._read(tokens, lengths)

    def step(self, tokens: Int[Tensor, " rows"], state: SlidingState) -> Float[Tensor, "rows vocabulary"]:
        max_length = self.model.config.context_length
        if state.inner.length == max_length:
            kept = state.lengths.where(state.lengths < max_length, max_length // 2)
            most = int(kept.max())
            moved = self._read(state.tokens[:, state.tokens.shape[1] - most :], kept)
            state.inner, state.tokens, state.lengths = moved.inner, moved.tokens, moved.lengths
        logits = self.model.step(tokens, state.inner)  # pyright: ignore[reportArgumentType]
        state.tokens, state.lengths = torch.cat([state.tokens, tokens[:, None]], 1), state.lengths + 1
        return logits

    def _read(self, tokens: Int[Tensor, "rows positions"], lengths: Int[Tensor, " rows"]) -> SlidingState:
        return SlidingState(self.model.start(tokens, lengths, self.room), tokens, lengths)


def left_padded(
    texts: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "rows positions"], Int[Tensor, " rows"]]:
    """Texts in rows that end together, and how long each is."""
    max_length = max(map(len, texts), default=0)
    rows = [[0] * (max_length - len(text)) + list(text) for text in texts]
    tokens = torch.tensor(rows, dtype=torch.long, device=device).view(len(texts), max_length)
    return tokens, torch.tensor([len(text) for text in texts], device=device)
