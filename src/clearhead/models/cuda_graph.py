"""A GPT whose steps are recorded on a GPU: the processor then starts a step, not each of its kernels."""

import weakref

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.layers.attention import KeyValues
from clearhead.layers.cache import StaticKVCache
from clearhead.layers.mask import KeyMask, Mask
from clearhead.layers.positions import check_length
from clearhead.models.gpt import GPT, GPTConfig, Tokens
from clearhead.models.state import GPTState

# Steps before a recording, on another stream, as torch asks: kernels are chosen in them.
WARM_UP = 3
# Rooms have this many positions, or twice as many, or four times …, so that there are few of them.
LEAST_ROOM = 128
# Seats that wait for the next text: each holds keys and values for all of its positions.
WAITING = 4


class GraphSlot:
    """Room for so many rows of so many positions, and a step that is recorded in it."""

    length = 0
    """Whoever takes the steps counts them: here it is never too long."""

    def __init__(self, model: GPT, rows: int, room: int):
        self.model, self.rows, self.room = model, rows, room
        config, like = model.config, model.readout_weight
        heads, device = config.attention.kv_heads or config.attention.heads, like.device
        # Not as inference would have it: tensors of that could not be written to outside of it.
        with torch.inference_mode(False):
            self.position = torch.zeros(1, dtype=torch.long, device=device)
            self.padding = torch.zeros(rows, dtype=torch.long, device=device)
            self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
            keys, values = like.new_zeros(2, config.layers, rows, heads, room, config.head_size)
            self.caches = [StaticKVCache(*both, self.position) for both in zip(keys, values, strict=True)]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits: Float[Tensor, "rows vocabulary"] | None = None

    @property
    def mask(self) -> Mask:
        positions = torch.arange(self.room, device=self.position.device)
        return KeyMask((positions >= self.padding[:, None]) & (positions <= self.position))

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "rows 1"]:
        return self.position - self.padding[:, None]

    def take(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """The logits after these tokens; they are kept only until the next step."""
        self.tokens.copy_(tokens)
        if self.tokens.device.type == "cpu":
            return self._step()
        if self._graph is None:
            self._record()
        assert self._graph is not None
        assert self._logits is not None
        self._graph.replay()
        return self._logits

    def _step(self) -> Float[Tensor, "rows vocabulary"]:
        logits = self.model.step(self.tokens, self)
        self.position += 1
        return logits

    def _record(self) -> None:
        begun = self.position.clone()
        aside = torch.cuda.Stream(self.position.device)
        aside.wait_stream(torch.cuda.current_stream(self.position.device))
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._step()
                self.position.copy_(begun)
        torch.cuda.current_stream(self.position.device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._logits = self._step()
        self._graph = graph


class CudaGraphState:
    """Where a decoding stands: in which seat, and how far."""

    def __init__(self, seats: "CudaGraphGPT", state: GPTState, rows: int, room: int):
        self._seats = seats
        self._padding = state.padding
        self.read = state.cached
        self.spare = state.shared_padding
        self._sit(rows, [memory.contents() for memory in state.caches] if state.cached else [], room)

    @property
    def length(self) -> int:
        """The most tokens that any row has read."""
        return self.read - self.spare

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        chosen = [memory.contents(self.read).select(rows) for memory in self.seat.caches]
        if self._padding is not None:
            self._padding = self._padding[rows]
            self.spare = int(self._padding.min()) if len(rows) else 0
        if len(rows) == self.seat.rows:
            self._fill(chosen)
        else:
            self._leave()
            self._sit(len(rows), chosen, self.seat.room)

    def make_room(self) -> None:
        """Moves where there is more, if the next token needs it."""
        if self.read == self.seat.room:
            held = [memory.contents(self.read) for memory in self.seat.caches]
            self._leave()
            self._sit(self.seat.rows, held, 2 * self.read)

    def _sit(self, rows: int, read: list[KeyValues], room: int) -> None:
        self.seat = self._seats.free(rows, room)
        self._leave = weakref.finalize(self, self._seats.give_back, self.seat)
        self._fill(read)

    def _fill(self, read: list[KeyValues]) -> None:
        for memory, kept in zip(self.seat.caches, read, strict=bool(read)):
            memory.load(kept)
        self.seat.position.fill_(self.read)
        self.seat.padding.zero_()
        if self._padding is not None:
            self.seat.padding.copy_(self._padding)


class CudaGraphGPT:
    """The `start` and `step` of a GPT, whose steps are recorded once for each number of rows and room."""

    def __init__(self, model: GPT):
        self.model, self.config, self.readout_weight = model, model.config, model.readout_weight
        self._waiting: list[GraphSlot] = []

    def start(
        self, tokens: Tokens, lengths: Int[Tensor, " batch"] | None = None, capacity: int = 16
    ) -> CudaGraphState | GPTState:
        """Reads the beginnings of texts, all but the token that the first step is given.

        While somebody looks into the model, its steps are plain ones: a recording would show nothing.
        """
        state = self.model.start(tokens, lengths, capacity)
        if is_tapped(self.model):
            return state
        return CudaGraphState(self, state, len(tokens), _enough(max(capacity, tokens.shape[1] + 1)))

    def step(
        self, tokens: Int[Tensor, " rows"], state: CudaGraphState | GPTState
    ) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the token after these; the state moves on."""
        if isinstance(state, GPTState):
            return self.model.step(tokens, state)
        check_length(state.length + 1, self.config.context_length)
        state.make_room()
        logits = state.seat.take(tokens).clone()
        state.read += 1
        return logits

    def free(self, rows: int, room: int) -> GraphSlot:
        """A seat that nobody has."""
        for seat in self._waiting:
            if (seat.rows, seat.room) == (rows, room):
                self._waiting.remove(seat)
                return seat
        return GraphSlot(self.model, rows, room)

    def give_back(self, seat: GraphSlot) -> None:
        """Keeps a seat for the next text; the one that has waited longest makes room."""
        self._waiting = [*self._waiting, seat][-WAITING:]


def is_tapped(model: GPT) -> bool:
    """Whether somebody looks into the model or changes something in it."""
    return any(
        getattr(module, "tap", None) or module._forward_hooks or module._forward_pre_hooks
        for module in model.modules()
    )


def _enough(positions: int) -> int:
    """A room that has so many positions."""
    room = LEAST_ROOM
    while room < positions:
        room *= 2
    return room


def supports_cuda_graph(config: GPTConfig) -> bool:
    """Whether no rule of the model counts positions from the last one in the room."""
    return config.window is None and config.position != "alibi" and config.packs
