"""A GPT whose steps are recorded on a GPU: the processor then starts a step, not each of its kernels."""

import weakref

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.layers.attention import KeyValues
from clearhead.layers.cache import FixedMemory
from clearhead.layers.mask import Keep, Mask
from clearhead.layers.positions import check_length
from clearhead.models.gpt import GPT, GPTConfig, GPTState, Words

# Steps before a recording, on another stream, as torch asks: kernels are chosen in them.
WARM_UP = 3
# Rooms have this many places, or twice as many, or four times …, so that there are few of them.
LEAST_ROOM = 128
# Seats that wait for the next text: each holds keys and values for all of its places.
WAITING = 4


class Seat:
    """Room for so many rows of so many places, and a step that is recorded in it."""

    length = 0
    """Whoever takes the steps counts them: here it is never too long."""

    def __init__(self, model: GPT, rows: int, room: int):
        self.model, self.rows, self.room = model, rows, room
        config, like = model.config, model.readout_weight
        heads, device = config.attention.key_heads or config.attention.heads, like.device
        # Not as inference would have it: tensors of that could not be written to outside of it.
        with torch.inference_mode(False):
            self.place = torch.zeros(1, dtype=torch.long, device=device)
            self.padding = torch.zeros(rows, dtype=torch.long, device=device)
            self.words = torch.zeros(rows, dtype=torch.long, device=device)
            keys, values = like.new_zeros(2, config.layers, rows, heads, room, config.head_size)
            self.memories = [FixedMemory(*both, self.place) for both in zip(keys, values, strict=True)]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits: Float[Tensor, "rows vocabulary"] | None = None

    @property
    def mask(self) -> Mask:
        places = torch.arange(self.room, device=self.place.device)
        return Keep((places >= self.padding[:, None]) & (places <= self.place))

    def places(self, count: int, device: torch.device) -> Int[Tensor, "rows 1"]:
        return self.place - self.padding[:, None]

    def take(self, words: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """The logits after these words; they are kept only until the next step."""
        self.words.copy_(words)
        if self.words.device.type == "cpu":
            return self._step()
        if self._graph is None:
            self._record()
        assert self._graph is not None
        assert self._logits is not None
        self._graph.replay()
        return self._logits

    def _step(self) -> Float[Tensor, "rows vocabulary"]:
        logits = self.model.step(self.words, self)
        self.place += 1
        return logits

    def _record(self) -> None:
        begun = self.place.clone()
        aside = torch.cuda.Stream(self.place.device)
        aside.wait_stream(torch.cuda.current_stream(self.place.device))
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._step()
                self.place.copy_(begun)
        torch.cuda.current_stream(self.place.device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._logits = self._step()
        self._graph = graph


class RecordedState:
    """Where a decoding stands: in which seat, and how far."""

    def __init__(self, seats: "Recorded", state: GPTState, rows: int, room: int):
        self._seats = seats
        self._padding = state.padding
        self.read = state.read
        self.spare = state.spare
        self._sit(rows, [memory.held() for memory in state.memories] if state.read else [], room)

    @property
    def length(self) -> int:
        """The most words that any row has read."""
        return self.read - self.spare

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        chosen = [memory.held(self.read).select(rows) for memory in self.seat.memories]
        if self._padding is not None:
            self._padding = self._padding[rows]
            self.spare = int(self._padding.min()) if len(rows) else 0
        if len(rows) == self.seat.rows:
            self._fill(chosen)
        else:
            self._leave()
            self._sit(len(rows), chosen, self.seat.room)

    def make_room(self) -> None:
        """Moves where there is more, if the next word needs it."""
        if self.read == self.seat.room:
            held = [memory.held(self.read) for memory in self.seat.memories]
            self._leave()
            self._sit(self.seat.rows, held, 2 * self.read)

    def _sit(self, rows: int, read: list[KeyValues], room: int) -> None:
        self.seat = self._seats.free(rows, room)
        self._leave = weakref.finalize(self, self._seats.give_back, self.seat)
        self._fill(read)

    def _fill(self, read: list[KeyValues]) -> None:
        for memory, kept in zip(self.seat.memories, read, strict=bool(read)):
            memory.adopt(kept)
        self.seat.place.fill_(self.read)
        self.seat.padding.zero_()
        if self._padding is not None:
            self.seat.padding.copy_(self._padding)


class Recorded:
    """The `start` and `step` of a GPT, whose steps are recorded once for each number of rows and room."""

    def __init__(self, model: GPT):
        self.model, self.config, self.readout_weight = model, model.config, model.readout_weight
        self._waiting: list[Seat] = []

    def start(
        self, words: Words, lengths: Int[Tensor, " batch"] | None = None, room: int = 16
    ) -> RecordedState | GPTState:
        """Reads the beginnings of texts, all but the word that the first step is given.

        While somebody looks into the model, its steps are plain ones: a recording would show nothing.
        """
        state = self.model.start(words, lengths, room)
        if is_watched(self.model):
            return state
        return RecordedState(self, state, len(words), _enough(max(room, words.shape[1] + 1)))

    def step(
        self, words: Int[Tensor, " rows"], state: RecordedState | GPTState
    ) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the word after these; the state moves on."""
        if isinstance(state, GPTState):
            return self.model.step(words, state)
        check_length(state.length + 1, self.config.longest)
        state.make_room()
        logits = state.seat.take(words).clone()
        state.read += 1
        return logits

    def free(self, rows: int, room: int) -> Seat:
        """A seat that nobody has."""
        for seat in self._waiting:
            if (seat.rows, seat.room) == (rows, room):
                self._waiting.remove(seat)
                return seat
        return Seat(self.model, rows, room)

    def give_back(self, seat: Seat) -> None:
        """Keeps a seat for the next text; the one that has waited longest makes room."""
        self._waiting = [*self._waiting, seat][-WAITING:]


def is_watched(model: GPT) -> bool:
    """Whether somebody looks into the model or changes something in it."""
    return any(
        getattr(module, "tap", None) or module._forward_hooks or module._forward_pre_hooks
        for module in model.modules()
    )


def _enough(places: int) -> int:
    """A room that has so many places."""
    room = LEAST_ROOM
    while room < places:
        room *= 2
    return room


def can_be_recorded(config: GPTConfig) -> bool:
    """Whether no rule of the model counts places from the last one in the room."""
    return config.window is None and config.position != "alibi" and config.packs
