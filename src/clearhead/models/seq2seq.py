"""The recurrent encoder-decoder, with attention or with one fixed vector for the whole source."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from clearhead.errors import ModelError
from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.block import Source
from clearhead.layers.embedding import Embedding
from clearhead.layers.layout import PairLayout
from clearhead.layers.mask import KeyMask, LengthMask, Mask
from clearhead.layers.positions import check_length
from clearhead.layers.recurrent import CELLS, CellKind, Recurrent, State
from clearhead.layers.scores import ScoreKind
from clearhead.layers.unrolling import Unrolling
from clearhead.models.anatomy import Anatomy, AttentionPart, RecurrentPart
from clearhead.models.encoder_decoder import (
    EncoderDecoder,
    EncoderDecoderConfig,
    SourceTokens,
    TargetStates,
    TargetTokens,
)
from clearhead.models.state import Seq2SeqState

Vectors = Float[Tensor, "batch width"]

PRESETS: dict[str, dict[str, Any]] = {
    "cho": {  # Cho et al. 2014
        "cell": "gru",
        "bidirectional": False,
        "attend": "none",
        "fixed_vector": "both",
    },
    "sutskever": {  # Sutskever et al. 2014
        "cell": "lstm",
        "layers": 4,
        "bidirectional": False,
        "reverse": True,
        "attend": "none",
    },
    "bahdanau": {  # Bahdanau et al. 2015
        "cell": "gru",
        "attend": "before",
        "attention": {"score": "additive"},
    },
    "luong": {  # Luong et al. 2015
        "cell": "lstm",
        "layers": 4,
        "bidirectional": False,
        "reverse": True,
        "attend": "after",
        "attention": {"score": "general"},
        "input_feeding": True,
        "dropout": 0.2,
    },
}
PRESETS = {name: {"width": 1000, "dropout": 0.0, "tied": "none"} | preset for name, preset in PRESETS.items()}


class SourceAttentionConfig(AttentionConfig):
    """The attention of a recurrent decoder to the source."""

    heads: PositiveInt = 1
    score: ScoreKind = "additive"


class Seq2SeqConfig(EncoderDecoderConfig):
    """The settings of a recurrent encoder-decoder."""

    PRESETS: ClassVar = PRESETS

    kind: Literal["seq2seq"] = "seq2seq"
    cell: CellKind = "gru"
    width: PositiveInt = 512
    """Of the embeddings, and of each direction of each recurrent layer."""
    layers: PositiveInt = 1
    """Layers of the encoder, and of the decoder."""
    bidirectional: bool = True
    """The encoder reads the source in both directions."""
    reverse: bool = False
    """The encoder reads the source from its end (Sutskever et al. 2014)."""
    attend: Literal["before", "after", "none"] = "before"
    """before: the decoder's last state queries, and the result enters its next step (Bahdanau et al. 2015).
    after: the new state queries, and the result is combined with it (Luong et al. 2015). none: the source is
    one fixed vector."""
    attention: SourceAttentionConfig = SourceAttentionConfig()
    input_feeding: bool = False
    """With attend "after": each step is also given the last combined vector (Luong et al. 2015)."""
    fixed_vector: Literal["start", "steps", "both"] = "start"
    """Without attention: the encoder's last state starts the decoder, or is given to each of its steps, or
    both (Cho et al. 2014)."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Of embeddings, between recurrent layers, of encoded states, and before the readout."""

    @property
    def packs(self) -> bool:
        """Never: a recurrence runs through its whole row, so that each row holds one sentence."""
        return False

    @property
    def shards(self) -> bool:
        """Never: torch's recurrent modules keep their own references to whole weights."""
        return False

    @property
    def given(self) -> bool:
        """Whether each step of the decoder is given a vector beside its token."""
        fixed = self.attend == "none" and self.fixed_vector != "start"
        return self.attend == "before" or self.input_feeding or fixed

    @property
    def summary(self) -> str:
        """The main settings in words."""
        reads = "bidirectional " if self.bidirectional else ""
        attention = "a fixed vector" if self.attend == "none" else f"{self.attention.score} attention"
        return f"{reads}{self.cell} of width {self.width}, {self.layers} + {self.layers} layers, {attention}"

    def tensor_sizes(self, vocabulary: int) -> dict[str, int]:
        """The number of values in each of the largest tensors, by what it holds."""
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[self.cell]
        sizes = {
            f"{vocabulary:,} tokens of width {self.width:,}": vocabulary * self.width,
            f"{self.cell} of width {self.width:,}": gates * self.width**2,
        }
        if self.attend != "none":
            heads, size = self.attention.heads, self.attention.head_size or self.width // self.attention.heads
            sizes[f"{heads:,} heads of size {size:,}"] = self.width * heads * size
            if self.attention.score == "location":
                sizes[f"{self.max_positions:,} positions"] = heads * size * self.max_positions
        return sizes

    @model_validator(mode="after")
    def _check_together(self) -> "Seq2SeqConfig":
        if self.attend != "none":
            self.attention.check_width(self.width)
        if self.reverse and self.bidirectional:
            raise ValueError("reverse has no effect on a bidirectional encoder; set bidirectional to false")
        if self.input_feeding and self.attend != "after":
            raise ValueError(f"input_feeding needs attend 'after', not {self.attend!r}")
        if self.fixed_vector != "start" and self.attend != "none":
            raise ValueError(
                f"fixed_vector {self.fixed_vector!r} needs attend 'none'; with attention, leave it out"
            )
        return self


class Seq2Seq(EncoderDecoder):
    """Embeddings, a recurrent encoder, a recurrent decoder, which may attend to the source, and a readout."""

    Config = Seq2SeqConfig
    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig, vocabulary: int):
        super().__init__(config)
        width, cell, layers = config.width, config.cell, config.layers
        shape = (vocabulary, width, "none", config.max_positions, config.dropout)
        self.source_embedding = Embedding(*shape)
        self.target_embedding = Embedding(*shape)
        reads = "both" if config.bidirectional else "backward" if config.reverse else "forward"
        self.encoder = Recurrent(cell, width, width, layers, config.dropout, reads)
        self.decoder = Recurrent(cell, width * (1 + config.given), width, layers, config.dropout)
        encoded = width * (2 if config.bidirectional else 1)
        self.bridge = nn.ModuleList()
        if config.bidirectional and (config.attend != "none" or config.fixed_vector != "steps"):
            self.bridge.extend(nn.Linear(encoded, width) for _ in range(layers * CELLS[cell].parts))
        if config.attend != "none":
            self.attention = Attention(width, config.attention, config.max_positions)
            self.merge = nn.Linear(encoded, width) if config.bidirectional else nn.Identity()
        elif config.fixed_vector != "start":
            self.summary = nn.Linear(encoded, width)
        # Of context and state; with attend "before" and for a fixed vector also of the token.
        features = 2 if config.attend == "after" else 3
        self.combine = None
        if config.attend != "none" or config.given:
            self.combine = nn.Linear(features * width, width)
        self._add_readout(vocabulary)

    def anatomy(self) -> Anatomy:
        config = self.config
        cross = AttentionPart("cross", None, "attention", "target", "source", causal=False)
        directions = 2 if config.bidirectional else 1
        return Anatomy(
            embeddings={"source": "source_embedding", "target": "target_embedding"},
            stacks=(),
            attentions=() if config.attend == "none" else (cross,),
            recurrences=(
                RecurrentPart("encoder", "source", config.layers, config.cell, directions),
                RecurrentPart("decoder", "target", config.layers, config.cell, 1),
            ),
        )

    def states(self, source: SourceTokens, layout: PairLayout, target: TargetTokens) -> TargetStates:
        """The vector that each target token is read out from; sentences start with <s>."""
        if layout.lengths is None:
            raise ModelError("seq2seq: takes one sentence per row; set batches.kind to 'padded'")
        # Many small steps gain nothing from half precision, and the casts between them cost time.
        with torch.autocast(source.device.type, enabled=False):
            state = self.start(source, layout.lengths)
            x = self.target_embedding(target, layout.target_positions)
            steps = self.config.attend == "before" or self.config.input_feeding
            found = self._step_by_step(x, state) if steps else self._at_once(x, state)
            return F.dropout(found, self.config.dropout, self.training)

    def start(self, source: SourceTokens, lengths: Int[Tensor, " batch"]) -> Seq2SeqState:
        """The state after encoding the source; the first `step` takes <s>."""
        config = self.config
        outputs, ends = self.encoder(self.source_embedding(source, None, lengths), lengths)
        blocks, given, layers = [], None, self._bridged(ends)
        if config.attend != "none":
            encoded = F.dropout(self.merge(outputs), config.dropout, self.training)
            blocks = [self.attention.prepare(self.attention.project_kv(encoded))]
            given = encoded.new_zeros(len(source), config.width) if config.input_feeding else None
        elif config.given:
            given = self.summary(ends[-1][0].flatten(1)).tanh()
        return Seq2SeqState(Source(blocks, LengthMask(lengths)), lengths, layers, given)

    def step(self, tokens: Int[Tensor, " rows"], state: Seq2SeqState) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the token after these; advances the state."""
        check_length(state.length + 1, self.config.max_positions)
        positions = torch.full((1,), state.length, device=tokens.device)
        x = self.target_embedding(tokens[:, None], positions)[:, 0]
        state.length += 1
        return self.readout(self._combined(self._advance(x, state)))

    def _step_by_step(self, x: TargetStates, state: Seq2SeqState) -> TargetStates:
        """The states where a step needs what the step before it attended to."""
        (kv,), features = state.source.blocks, []
        # Every step has the same mask, which is made only once.
        allowed = state.source.mask.dense(1, kv.keys.shape[2], x.device)
        state.source = Source([kv], Mask() if allowed is None else KeyMask(allowed[:, 0, 0]))
        with Unrolling(x.shape[1]) as loop:
            for position, token in enumerate(x.unbind(1)):
                loop.position = position
                features.append(self._advance(token, state))
        return self._combined(torch.stack(features, 1))

    def _at_once(self, x: TargetStates, state: Seq2SeqState) -> TargetStates:
        """The states where no step needs more than the token and the state before it."""
        given = None if state.given is None else state.given[:, None].expand_as(x)
        hidden, _ = self.decoder(_joined(x, given), None, state.layers)
        context = self._attended(hidden, state) if self.config.attend == "after" else given
        return self._combined(self._features(hidden, context, x))

    def _advance(self, x: Vectors, state: Seq2SeqState) -> Float[Tensor, "batch features"]:
        """One step of the decoder: what its combined vector is made of; advances the state."""
        attend = self.config.attend
        if attend == "before":
            # The last layer's state has an axis of directions, here the queries' axis of one position.
            state.given = self._attended(state.layers[-1][0], state).squeeze(1)
        hidden, state.layers = self.decoder.step(_joined(x, state.given), state.layers)
        context = self._attended(hidden[:, None], state).squeeze(1) if attend == "after" else state.given
        features = self._features(hidden, context, x)
        if self.config.input_feeding:
            state.given = self._combined(features)
        return features

    def _attended(self, states: TargetStates, state: Seq2SeqState) -> TargetStates:
        """What decoder states gather from the source."""
        (kv,) = state.source.blocks
        return self.attention(self.attention.project_q(states), kv, state.source.mask)

    def _features(self, hidden: Tensor, context: Tensor | None, x: Tensor) -> Tensor:
        if self.config.attend == "after":
            return _joined(context, hidden)
        return hidden if context is None else _joined(hidden, context, x)

    def _combined(self, features: Float[Tensor, "*rows features"]) -> Float[Tensor, "*rows width"]:
        """tanh W[c; h]: an attentional vector (Luong et al. 2015), or a deep output (Pascanu et al. 2014)."""
        return features if self.combine is None else self.combine(features).tanh()

    def _bridged(self, ends: Sequence[State]) -> list[State]:
        """The decoder's first states, from the encoder's last ones of each direction."""
        if self.config.attend == "none" and self.config.fixed_vector == "steps":
            return [tuple(torch.zeros_like(part[:, :1]) for part in end) for end in ends]
        if not self.bridge:
            return list(ends)
        linears, bridged = iter(self.bridge), []
        for end in ends:
            hidden, *cell = (next(linears)(part.flatten(1))[:, None] for part in end)
            bridged.append((hidden.tanh(), *cell))
        return bridged


def _joined(*parts: Tensor | None) -> Tensor:
    """The parts that there are, concatenated."""
    there = [part for part in parts if part is not None]
    return there[0] if len(there) == 1 else torch.cat(there, -1)
