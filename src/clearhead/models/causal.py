"""What generates text token by token: an embedding, one stack under a causal mask, and a readout."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.layers.block import Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.positions import check_length
from clearhead.models.state import GPTState, TextState

Tokens = Int[Tensor, "batch positions"]
States = Float[Tensor, "batch positions width"]
Lengths = Int[Tensor, " batch"]

# Long prompts are processed in chunks, to limit the memory for attention scores.
PREFILL = 512


class CausalModel(nn.Module):
    """The `start` and `step` of a model; a subclass has an `embedding`, a `stack` and a `readout`."""

    config: Any
    embedding: Embedding
    readout_weight: Float[Tensor, "vocabulary width"]
    """The matrix that turns states into logits."""

    @property
    def stack(self) -> Stack:
        raise NotImplementedError

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        """The logits of hidden states."""
        raise NotImplementedError

    def start(self, tokens: Tokens, lengths: Lengths | None = None, capacity: int = 16) -> GPTState:
        """The state after these tokens: the prompts without their last token, which goes to the first `step`.

        Rows are right-aligned: a row of fewer tokens, `lengths` of them, starts with padding. `capacity` is
        the number of positions to reserve.
        """
        positions = tokens.shape[1]
        padding = None if lengths is None or bool((lengths == positions).all()) else positions - lengths
        state = GPTState(self.config.layers, padding, max(capacity, positions))
        for chunk in tokens.split(PREFILL, dim=1) if positions else ():
            self._extend(chunk, state)
        return state

    def step(self, tokens: Int[Tensor, " rows"], state: TextState) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the token after these; advances the state."""
        return self.readout(self._extend(tokens[:, None], state)[:, 0])

    def _extend(self, tokens: Tokens, state: TextState) -> States:
        """The last hidden states of tokens that follow those in the state."""
        check_length(state.length + tokens.shape[1], self.config.max_positions)
        mask, positions = state.mask, state.positions(tokens.shape[1], tokens.device)
        return self.stack(self.embedding(tokens, positions), mask, positions, caches=state.caches)
