"""Generation beyond a model's context: a full row drops the older half of its tokens."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.models.causal import CausalModel
from clearhead.models.cuda_graph import CudaGraphGPT, CudaGraphState
from clearhead.models.state import GPTState


class SlidingWindowState:
    """A decoding state and the tokens it has read, right-aligned."""

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


class SlidingWindow:
    """Decoding steps without a length limit; each row slides on its own, as it would alone."""

    def __init__(self, model: CausalModel | CudaGraphGPT, capacity: int):
        self.model, self.capacity = model, min(capacity, model.config.max_positions)

    def start(self, texts: Sequence[Sequence[int]]) -> SlidingWindowState:
        """The state after the last tokens of each text that fit, but the very last, which `step` takes."""
        fitting = [text[-self.model.config.max_positions : -1] for text in texts]
        tokens, lengths = left_padded(fitting, self.model.readout_weight.device)
        return self._read(tokens, lengths)

    def step(
        self, tokens: Int[Tensor, " rows"], state: SlidingWindowState
    ) -> Float[Tensor, "rows vocabulary"]:
        context = self.model.config.max_positions
        if state.inner.length == context:
            kept = state.lengths.where(state.lengths < context, context // 2)
            most = int(kept.max())
            moved = self._read(state.tokens[:, state.tokens.shape[1] - most :], kept)
            state.inner, state.tokens, state.lengths = moved.inner, moved.tokens, moved.lengths
        logits = self.model.step(tokens, state.inner)  # pyright: ignore[reportArgumentType]
        state.tokens, state.lengths = torch.cat([state.tokens, tokens[:, None]], 1), state.lengths + 1
        return logits

    def _read(
        self, tokens: Int[Tensor, "rows positions"], lengths: Int[Tensor, " rows"]
    ) -> SlidingWindowState:
        return SlidingWindowState(self.model.start(tokens, lengths, self.capacity), tokens, lengths)


def left_padded(
    texts: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "rows positions"], Int[Tensor, " rows"]]:
    """Texts as right-aligned rows, and the length of each."""
    width = max(map(len, texts), default=0)
    rows = [[0] * (width - len(text)) + list(text) for text in texts]
    tokens = torch.tensor(rows, dtype=torch.long, device=device).view(len(texts), width)
    return tokens, torch.tensor([len(text) for text in texts], device=device)
