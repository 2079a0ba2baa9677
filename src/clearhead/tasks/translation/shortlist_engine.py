"""Decoding with a vocabulary shortlist: a step computes only the logits of its tokens.

Reading the matrix of the readout takes a large part of a step on a CPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.accel.int8 import Int8Linear, Int8Rows, linear
from clearhead.accel.onednn import OneDNNLinear
from clearhead.decoding import Hypothesis
from clearhead.models.state import TranslatorState
from clearhead.models.static_step import StepEngine
from clearhead.text.kinds import BYTES
from clearhead.text.tokenizer import BOS, EOS, Tokenizer

if TYPE_CHECKING:
    from clearhead.tasks.translation.shortlist import LanguageShortlist

Hypotheses = list[list[Hypothesis]]


class WholeVocabulary:
    """The tokens of a search that may use all of them."""

    bos, eos = BOS, EOS

    def __init__(self, model: Any):
        self.step = model.step

    def numbered(self, tokens: Sequence[int]) -> list[int]:
        """The numbers that tokens have in the search."""
        return list(tokens)

    def restored(self, found: Hypotheses) -> Hypotheses:
        """Hypotheses with tokens instead of their numbers."""
        return found


class ShortlistEngine:
    """A model whose searches choose among the tokens of a shortlist.

    `by_tag` holds the shortlist of each target language by its tag; by None if the model has no tags.
    """

    def __init__(
        self,
        engine: StepEngine,
        by_tag: "Mapping[int | None, LanguageShortlist]",
        tokenizer: Tokenizer,
        weight: Tensor,
    ):
        self.engine, self.config, self.readout_weight = engine, engine.config, engine.readout_weight
        self.start, self.step = engine.start, engine.step
        self._by_tag = by_tag
        self._rows = Int8Rows(weight) if isinstance(engine.readout_weight, Int8Linear) else weight.detach()
        spelling = [tokenizer.id(token) for token in BYTES]
        special = [*tokenizer.special_ids, *(token for token in spelling if token is not None)]
        self._special = torch.tensor(special)

    def vocabulary(
        self, sources: Sequence[Sequence[int]], prefix: Sequence[int] = ()
    ) -> "WholeVocabulary | RestrictedVocabulary":
        """The tokens of a search for these sources, with those of `prefix`.

        The whole vocabulary if the shortlist lacks their target language.
        """
        # With tags, each source starts with one.
        shortlist = self._by_tag.get(None) or self._by_tag.get(sources[0][0])
        if shortlist is None:
            return WholeVocabulary(self.engine)
        possible = torch.zeros(len(sources), len(shortlist.translations) + 1, dtype=torch.bool)
        for tokens in (shortlist.frequent, self._special, torch.tensor(prefix)):
            possible[:, tokens.long()] = True
        for row, source in zip(possible, sources, strict=True):
            ids = torch.tensor(source)
            row[ids] = True
            # The padding, -1, falls into the last column.
            row[shortlist.translations[ids].flatten().long()] = True
        tokens = possible[:, :-1].any(0).nonzero()[:, 0]
        return RestrictedVocabulary(self.engine, tokens, possible[:, tokens], self._readout(tokens))

    def _readout(self, tokens: Int[Tensor, " tokens"]) -> Any:
        """The readout's matrix for some tokens."""
        whole: Any = self.engine.readout_weight
        if isinstance(self._rows, Int8Rows):
            return self._rows.layer(tokens)
        rows = self._rows[tokens]
        return rows.to(whole.dtype) if isinstance(whole, Tensor) else OneDNNLinear(rows)


class RestrictedVocabulary:
    """The tokens that a search may use; in the search they have numbers, which are positions in `tokens`."""

    def __init__(
        self,
        engine: StepEngine,
        tokens: Int[Tensor, " tokens"],
        possible: Bool[Tensor, "sentences tokens"],
        readout: Any,
    ):
        bias = engine.model.readout_bias
        self.engine, self.tokens, self.readout = engine, tokens, readout
        self.bias = None if bias is None else bias[tokens]
        # Texts in a batch share one product, but each may use only its own tokens.
        self._impossible = None if bool(possible.all()) else ~possible
        self._numbers = {token: number for number, token in enumerate(tokens.tolist())}
        self.bos, self.eos = self.numbered((BOS, EOS))

    def step(self, tokens: Int[Tensor, " rows"], state: TranslatorState) -> Float[Tensor, "rows tokens"]:
        """The logits of the tokens after these; advances the state."""
        logits = linear(self.engine.step_states(self.tokens[tokens], state), self.readout, self.bias)
        if self._impossible is None:
            return logits
        return logits.masked_fill_(self._impossible[state.sentences], -torch.inf)

    def numbered(self, tokens: Sequence[int]) -> list[int]:
        """The numbers that tokens have in the search."""
        return [self._numbers[token] for token in tokens]

    def restored(self, found: Hypotheses) -> Hypotheses:
        """Hypotheses with tokens instead of their numbers."""
        ids = self.tokens.tolist()
        return [[replace(one, tokens=[ids[token] for token in one.tokens]) for one in best] for best in found]
