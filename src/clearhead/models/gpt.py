"""The decoder-only Transformer that continues a text (Radford et al. 2019)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from clearhead.layers.attention import AttentionConfig, Tap
from clearhead.layers.block import NARROW, BlockConfig, Stack
from clearhead.layers.cache import Memory, Remembers
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import ActivationKind
from clearhead.layers.layout import Plain, TextLayout
from clearhead.layers.mask import Behind, Causal, Mask
from clearhead.layers.norm import NormPlace
from clearhead.layers.positions import Learned, PositionKind, check_length

Words = Int[Tensor, "batch places"]

# What newer models have in common: rotary positions, RMSNorm, norms of queries and keys, squared ReLU,
# no biases, and blocks that begin as nothing.
MODERN: dict[str, Any] = {
    "position": "rotary",
    "norm": "rms",
    "activation": "squared_relu",
    "bias": False,
    "initial": "zero",
}
PRESETS: dict[str, dict[str, Any]] = {
    "gpt2": {},  # Radford et al. 2019, the smallest: the defaults
    "gpt2-medium": {"width": 1024, "hidden": 4096, "layers": 24, "attention": {"heads": 16}},
    "gpt2-large": {"width": 1280, "hidden": 5120, "layers": 36, "attention": {"heads": 20}},
    "gpt2-xl": {"width": 1600, "hidden": 6400, "layers": 48, "attention": {"heads": 25}},
    "modern": {**MODERN, "attention": {"heads": 12, "key_heads": 4, "norm": "rms"}, "window": 512},
    "shakespeare": {  # the size of nanoGPT's, for characters
        **MODERN,
        "width": 384,
        "hidden": 1536,
        "layers": 6,
        "attention": {"heads": 6, "norm": "rms"},
        "dropout": 0.2,
        "longest": 256,
    },
    "shakespeare-small": {
        **MODERN,
        "width": 128,
        "hidden": 512,
        "layers": 4,
        "attention": {"heads": 4, "norm": "rms"},
        "longest": 64,
    },
}

# A long prompt is read in parts: the scores of a part and all before it are what memory has to hold.
PREFILL = 512


class GPTConfig(BlockConfig):
    """As GPT-2 where nothing is said; rotary, rms, swiglu and no bias make the shape of Llama."""

    PRESETS: ClassVar = PRESETS

    kind: Literal["gpt"] = "gpt"
    layers: PositiveInt = 12
    width: PositiveInt = 768
    hidden: PositiveInt = 3072
    attention: AttentionConfig = AttentionConfig(heads=12)
    position: PositionKind = "learned"
    activation: ActivationKind = "gelu_tanh"
    norm_place: NormPlace = "pre"
    initial: Literal["xavier", "gpt2", "zero"] = "gpt2"
    dropout: float = Field(default=0.0, ge=0, lt=1)
    longest: PositiveInt = 1024
    """The most tokens that are seen at once."""
    tied: Literal["all", "none"] = "all"
    """Whether embedding and readout are one matrix."""


@runtime_checkable
class Place(Protocol):
    """Where a decoding stands, as a pass over the next words asks for it."""

    @property
    def length(self) -> int:
        """The most words that any row has read."""
        ...

    @property
    def memories(self) -> Sequence[Remembers]: ...
    @property
    def mask(self) -> Mask: ...
    def places(self, count: int, device: torch.device) -> Int[Tensor, "... places"]:
        """Where the next words stand, counted from the first word of each row."""
        ...


class GPTState:
    """Where a decoding stands: a memory for each block, and the places of padding before each row."""

    def __init__(self, layers: int, padding: Int[Tensor, " rows"] | None, room: int):
        self.memories = [Memory(room) for _ in range(layers)]
        self.padding = padding
        self.spare = 0
        """So many of the places read are padding in every row."""

    @property
    def read(self) -> int:
        """The places read so far, padding counted."""
        return self.memories[0].length

    @property
    def length(self) -> int:
        """The most words that any row has read."""
        return self.read - self.spare

    @property
    def mask(self) -> Mask:
        return Causal() if self.padding is None else Behind(self.padding) & Causal()

    def places(self, count: int, device: torch.device) -> Int[Tensor, "... places"]:
        """Where the next words stand, counted from the first word of each row."""
        places = torch.arange(self.read, self.read + count, device=device)
        return places if self.padding is None else (places - self.padding[:, None]).clamp(min=0)

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        for memory in self.memories:
            memory.select(rows)
        if self.padding is not None:
            self.padding = self.padding[rows]
            self.spare = int(self.padding.min()) if len(rows) else 0


class GPT(nn.Module):
    """An embedding, a stack in which words see those before them, and a readout."""

    def __init__(self, config: GPTConfig, vocabulary: int):
        super().__init__()
        self.config = config
        self.tap: Tap | None = None
        self.embedding = Embedding(
            vocabulary, config.width, config.position, config.longest, config.dropout, scale=1.0
        )
        nn.init.normal_(self.embedding.weight, std=NARROW)
        if isinstance(self.embedding.position, Learned):
            nn.init.normal_(self.embedding.position.weight, std=NARROW)
        self.decoder = Stack(config, config.layers)
        self.readout_weight = self.embedding.weight
        if config.tied == "none":
            self.readout_weight = nn.Parameter(torch.empty(vocabulary, config.width))
            nn.init.normal_(self.readout_weight, std=NARROW)

    def states(self, words: Words, layout: TextLayout) -> Float[Tensor, "batch places width"]:
        """The last states at every place."""
        x = self.embedding(words, layout.places)
        return self.decoder(x, layout.mask, layout.places)

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        logits, tap = F.linear(states, self.readout_weight), self.tap
        return logits if tap is None else tap("logits", logits)

    def forward(
        self, words: Words, layout: TextLayout | None = None
    ) -> Float[Tensor, "batch places vocabulary"]:
        """The logits of the next word at every place."""
        return self.readout(self.states(words, layout or Plain()))

    def start(self, words: Words, lengths: Int[Tensor, " batch"] | None = None, room: int = 16) -> GPTState:
        """Reads the beginnings of texts, all but the word that the first step is given.

        Rows end together: one that has fewer words, `lengths` of them, begins with padding. `room` is made
        for so many places in all.
        """
        places = words.shape[1]
        padding = None if lengths is None or bool((lengths == places).all()) else places - lengths
        state = GPTState(self.config.layers, padding, max(room, places))
        for part in words.split(PREFILL, dim=1) if places else ():
            self._read(part, state)
        return state

    def step(self, words: Int[Tensor, " rows"], state: Place) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the word after these; the state moves on."""
        return self.readout(self._read(words[:, None], state)[:, 0])

    def _read(self, words: Words, state: Place) -> Float[Tensor, "batch places width"]:
        """The last states of words that follow what was read before."""
        check_length(state.length + words.shape[1], self.config.longest)
        mask, places = state.mask, state.places(words.shape[1], words.device)
        return self.decoder(self.embedding(words, places), mask, places, memories=state.memories)
