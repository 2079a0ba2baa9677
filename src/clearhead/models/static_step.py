"""Encoding and decoding steps as functions of tensors only, so that they can be traced."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.accel.memory import keep_freed_memory
from clearhead.accel.packing import row_branches
from clearhead.accel.tracing import TracedModule
from clearhead.layers.attention import FEW_QUERIES, Attention, KeyValues
from clearhead.layers.block import BlockConfig, Source
from clearhead.layers.cache import Cache, StaticKVCache
from clearhead.layers.layout import Padded
from clearhead.layers.mask import KeyMask, Mask
from clearhead.layers.positions import check_length
from clearhead.layers.scores import ProductScore
from clearhead.models.state import GPTState, Rows, TranslatorState
from clearhead.models.translator import Translator

# Steps see this many cached positions or a multiple, so that their shapes change rarely.
BUCKET = 8
Logits = Float[Tensor, "rows vocabulary"]


class StaticState:
    """The state of one step, made of tensors that the caller keeps."""

    length = 0
    """Always 0: the caller counts the cached positions and checks the maximum length."""

    def __init__(self, caches: Sequence[Cache], mask: Mask, positions: Tensor, source: Source | None = None):
        self.caches, self.mask, self.source = caches, mask, source
        self._positions = positions

    def positions(self, count: int, device: torch.device) -> Tensor:
        return self._positions


class StaticStep(nn.Module):
    """A method of the model, `step` or `step_states`, as a function of tensors.

    Writes new keys and values into those of the caches.
    """

    def __init__(self, model: Any, method: str, layers: int, has_source_mask: bool):
        super().__init__()
        self.model, self.method, self.layers, self.has_source_mask = model, method, layers, has_source_mask

    def forward(
        self,
        tokens: Rows,
        position: Int[Tensor, ""],
        positions: Int[Tensor, "*rows 1"],
        allowed: Bool[Tensor, "_ keys"],
        *tensors: Tensor,
    ) -> Tensor:
        """What the method returns for tokens at `positions`, which are cached at `position`.

        The other tensors are the keys of all caches and their values, those of the source, and its mask.
        """
        layers = self.layers
        keys, values, rest = tensors[:layers], tensors[layers : 2 * layers], tensors[2 * layers :]
        caches = [StaticKVCache(*pair, position) for pair in zip(keys, values, strict=True)]
        source = None
        if rest:
            pairs = zip(rest[:layers], rest[layers : 2 * layers], strict=True)
            mask = KeyMask(rest[-1]) if self.has_source_mask else Mask()
            source = Source([KeyValues(*pair) for pair in pairs], mask)
        state = StaticState(caches, KeyMask(allowed), positions, source)
        return getattr(self.model, self.method)(tokens, state)


class StaticStart(nn.Module):
    """`translator.start` as a function of tensors."""

    def __init__(self, model: Translator):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Int[Tensor, " batch"]) -> tuple[Tensor, ...]:
        """The source's keys for all blocks of the decoder, and their values."""
        layout = Padded(lengths)
        blocks = self.model.decoder.project_source(
            self.model.encode(source, layout), layout.cross_mask
        ).blocks
        return tuple(kv.keys for kv in blocks) + tuple(kv.values for kv in blocks)


class StepEngine:
    """The `start` and `step` of a model; after many calls, steps and a translator's `start` are traced."""

    def __init__(self, model: Any):
        self.model, self.config, self.readout_weight = model, model.config, model.readout_weight
        self._starts: dict[tuple[bool, ...], TracedModule] = {}
        self._steps: dict[tuple[Any, ...], TracedModule] = {}
        # Other scores prepare keys that a trace would not return.
        self._traces_start = isinstance(model, Translator) and all(
            isinstance(module.score, ProductScore)
            for module in model.decoder.modules()
            if isinstance(module, Attention)
        )
        keep_freed_memory()

    def start(self, *inputs: Any) -> Any:
        return self._translator_start(*inputs) if self._traces_start else self.model.start(*inputs)

    def _translator_start(self, source: Tensor, lengths: Int[Tensor, " batch"]) -> TranslatorState:
        check_length(source.shape[1], self.config.max_positions)
        # The conditions by which the encoder branches: attention has another path for few queries.
        path = (source.shape[1] <= FEW_QUERIES, *row_branches(source.numel()))
        if path not in self._starts:
            self._starts[path] = TracedModule(StaticStart(self.model))
        tensors = self._starts[path](source, lengths)
        keys, values = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
        blocks = [KeyValues(*pair) for pair in zip(keys, values, strict=True)]
        return TranslatorState(Source(blocks, Padded(lengths).cross_mask, shared=True), lengths)

    def step(self, tokens: Rows, state: GPTState | TranslatorState) -> Logits:
        """The logits of the token after these; advances the state."""
        return self._run("step", tokens, state)

    def step_states(self, tokens: Rows, state: TranslatorState) -> Float[Tensor, "rows width"]:
        """The last hidden states, from which the next tokens are read out; advances the state."""
        return self._run("step_states", tokens, state)

    def _run(self, method: str, tokens: Rows, state: GPTState | TranslatorState) -> Tensor:
        cached = state.caches[0].length
        source = state.source if isinstance(state, TranslatorState) else None
        if not (cached or source) or (source and any(kv.prepared is not None for kv in source.blocks)):
            return getattr(self.model, method)(tokens, state)
        check_length(state.length + 1, self.config.max_positions)
        size = -(-(cached + 1) // BUCKET) * BUCKET
        if source and not cached:
            for cache, kv in zip(state.caches, source.blocks, strict=True):
                # A cache that is only partly full is slow to read.
                cache.allocate(len(tokens), size, kv.keys)
        reserved = [cache.reserve(size) for cache in state.caches]
        device = tokens.device
        keys = torch.arange(size, device=device)
        allowed = (keys <= cached)[None]
        if isinstance(state, GPTState) and state.padding is not None:
            allowed = allowed & (keys >= state.padding[:, None])
        tensors = [kv.keys for kv in reserved] + [kv.values for kv in reserved]
        mask = None
        if source:
            tensors += [kv.keys for kv in source.blocks] + [kv.values for kv in source.blocks]
            mask = source.mask.dense(1, tensors[-1].shape[2], device)
            tensors += [] if mask is None else [mask[:, 0, 0]]
        # The conditions by which a step branches in Python: one trace for each path.
        shares_source = source is not None and len(tensors[-1]) != len(tokens)
        path = (method, mask is not None, shares_source, *row_branches(len(tokens)))
        if path not in self._steps:
            self._steps[path] = TracedModule(StaticStep(self.model, method, len(reserved), mask is not None))
        positions = state.positions(1, device)
        output = self._steps[path](tokens, torch.tensor(cached, device=device), positions, allowed, *tensors)
        for cache in state.caches:
            cache.length += 1
        return output


def supports_static_caches(config: BlockConfig) -> bool:
    """Whether masks and positions are independent of the capacity of the caches."""
    return config.window is None and config.position != "alibi" and config.packs
