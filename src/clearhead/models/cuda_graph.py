"""A GPT whose decode steps are CUDA graphs: the processor launches a step, not each of its kernels."""

import weakref

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.accel.graphs import GraphedStep
from clearhead.accel.torch_private import any_has, has_hooks, modules_within
from clearhead.layers.attention import KeyValues, Lookup
from clearhead.layers.cache import SlotKVCache
from clearhead.layers.mask import Mask
from clearhead.layers.positions import check_length
from clearhead.models.causal import CausalModel, Lengths, Tokens
from clearhead.models.state import GPTState, Rows

# Slots have this many positions or a power of two times as many, so that few sizes are recorded.
MIN_CAPACITY = 128
# Idle slots kept for the next text; each holds keys and values for all of its positions.
MAX_IDLE = 4
Logits = Float[Tensor, "rows vocabulary"]


class GraphSlot:
    """Static caches for a number of rows and positions, and the decode step recorded over them."""

    length = 0
    """The caller counts the cached positions: inside a slot no text is too long."""

    def __init__(self, model: CausalModel, rows: int, capacity: int):
        self.model, self.rows, self.capacity = model, rows, capacity
        config, like = model.config, model.readout_weight
        heads, device = config.attention.kv_heads or config.attention.heads, like.device
        # Inference tensors could not be written to outside of inference mode.
        with torch.inference_mode(False):
            self.lengths = torch.ones(rows, dtype=torch.long, device=device)
            """The positions of each row, that of the next token included."""
            self.padding = torch.zeros_like(self.lengths)
            self.tokens = torch.zeros_like(self.lengths)
            keys, values = like.new_zeros(2, config.layers, rows, heads, capacity, config.head_size)
            own = torch.arange(rows, device=device)[:, None].expand(-1, capacity)
        lookup = Lookup(own, self.padding, self.lengths)
        self.caches = [SlotKVCache(*both, lookup) for both in zip(keys, values, strict=True)]
        self._graphed = GraphedStep(device)

    @property
    def mask(self) -> Mask:
        return Mask()

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "rows 1"]:
        return (self.lengths - 1 - self.padding)[:, None]

    def step(self, tokens: Rows) -> Logits:
        """The logits after these tokens, valid until the next step."""
        self.tokens.copy_(tokens)
        return self._graphed(self._advance, self._retreat)

    def _advance(self) -> Logits:
        logits = self.model.step(self.tokens, self)
        self.lengths += 1
        return logits

    def _retreat(self) -> None:
        self.lengths -= 1


class CudaGraphState:
    """The state of a decoding: its slot, and the number of cached positions."""

    def __init__(self, engine: "CudaGraphGPT", state: GPTState, rows: int, capacity: int):
        self._engine, self._padding = engine, state.padding
        self.cached, self.shared_padding = state.cached, state.shared_padding
        self._move(rows, [cache.contents() for cache in state.caches] if state.cached else [], capacity)

    @property
    def length(self) -> int:
        """The tokens of the longest row, without padding."""
        return self.cached - self.shared_padding

    def select(self, rows: Int[Tensor, " selected"]) -> None:
        """Keeps these rows, in this order; a row may be repeated."""
        selected = [cache.contents(self.cached).select(rows) for cache in self.slot.caches]
        if self._padding is not None:
            self._padding = self._padding[rows]
            self.shared_padding = int(self._padding.min()) if len(rows) else 0
        if len(rows) == self.slot.rows:
            self._fill(selected)
        else:
            self._release()
            self._move(len(rows), selected, self.slot.capacity)

    def reserve(self) -> None:
        """Moves to a larger slot if this one is full."""
        if self.cached == self.slot.capacity:
            contents = [cache.contents(self.cached) for cache in self.slot.caches]
            self._release()
            self._move(self.slot.rows, contents, 2 * self.cached)

    def _move(self, rows: int, contents: list[KeyValues], capacity: int) -> None:
        self.slot = self._engine.acquire(rows, capacity)
        self._release = weakref.finalize(self, self._engine.release, self.slot)
        self._fill(contents)

    def _fill(self, contents: list[KeyValues]) -> None:
        for cache, kept in zip(self.slot.caches, contents, strict=bool(contents)):
            cache.load(kept)
        self.slot.lengths.fill_(self.cached + 1)
        self.slot.padding.zero_()
        if self._padding is not None:
            self.slot.padding.copy_(self._padding)


class CudaGraphGPT:
    """The `start` and `step` of a causal model, recorded once for each number of rows and capacity."""

    def __init__(self, model: CausalModel):
        self.model, self.config, self.readout_weight = model, model.config, model.readout_weight
        self._idle: list[GraphSlot] = []

    def start(
        self, tokens: Tokens, lengths: Lengths | None = None, capacity: int = 16
    ) -> CudaGraphState | GPTState:
        """Reads the prompts except for the token that the first step is given.

        While the model is tapped, the state is a plain one: a graph would not call the tap.
        """
        state = self.model.start(tokens, lengths, capacity)
        if is_tapped(self.model):
            return state
        slot_capacity = MIN_CAPACITY
        while slot_capacity < max(capacity, tokens.shape[1] + 1):
            slot_capacity *= 2
        return CudaGraphState(self, state, len(tokens), slot_capacity)

    def step(self, tokens: Rows, state: CudaGraphState | GPTState) -> Logits:
        """The logits of the next token; the state advances."""
        if isinstance(state, GPTState):
            return self.model.step(tokens, state)
        check_length(state.length + 1, self.config.max_positions)
        state.reserve()
        # A copy, because the next step overwrites them; searches compute in fp32.
        logits = state.slot.step(tokens).to(torch.float32, copy=True)
        state.cached += 1
        return logits

    def acquire(self, rows: int, capacity: int) -> GraphSlot:
        """An idle slot of this size, or a new one."""
        for slot in self._idle:
            if (slot.rows, slot.capacity) == (rows, capacity):
                self._idle.remove(slot)
                return slot
        return GraphSlot(self.model, rows, capacity)

    def release(self, slot: GraphSlot) -> None:
        """Keeps a slot for the next text and drops the oldest idle one."""
        self._idle = [*self._idle, slot][-MAX_IDLE:]


def is_tapped(model: nn.Module) -> bool:
    """Whether a tap or hook reads or changes something inside the model."""
    modules = modules_within(model)
    return any_has(modules, "tap") or has_hooks(*modules)
