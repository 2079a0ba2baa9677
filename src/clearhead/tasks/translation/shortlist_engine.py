"""Decoding with a vocabulary shortlist: a step computes only the logits of its tokens.

Reading the matrix of the readout takes a large part of a step on a CPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.accel.int8 import Int8Rows, linear
from clearhead.decoding import Hypothesis
from clearhead.models.state import TranslatorState
from clearhead.models.static_step import StepEngine
from clearhead.text.kinds import BYTES
from clearhead.text.tokenizer import BOS, EOS, Tokenizer

if TYPE_CHECKING:
    from clearhead.tasks.translation.shortlist import Shortlist


class ShortlistEngine:
    """A model that decodes, whose searches choose among the tokens of a shortlist."""

    def __init__(
        self,
        engine: StepEngine,
        shortlist: "Shortlist",
        tokenizer: Tokenizer,
        tags: Mapping[str, int],
        weight: Tensor,
        bias: Tensor | None,
    ):
        self.engine, self.config, self.readout_weight = engine, engine.config, engine.readout_weight
        self.start, self.step = engine.start, engine.step
        self._rows = weight if isinstance(engine.readout_weight, Tensor) else Int8Rows(weight)
        self._bias = bias
        self._by_tag = {tags.get(language): one for language, one in shortlist.languages.items()}
        spelling = [tokenizer.id(token) for token in BYTES]
        special = [*tokenizer.special_ids, *(token for token in spelling if token is not None)]
        self._special = torch.tensor(special)

    def narrowed(self, sources: Sequence[Sequence[int]], more: Sequence[int] = ()) -> "NarrowedEngine | None":
        """The engine for a search of these sources; `more` tokens are possible, too.

        None if the shortlist does not have their target language.
        """
        # The first token is the tag of the target language, if there are several.
        candidates = self._by_tag.get(sources[0][0], self._by_tag.get(None))
        if candidates is None:
            return None
        vocabulary = len(candidates.by_token)
        # The last column takes the -1 that fill rows.
        possible = torch.zeros(len(sources), vocabulary + 1, dtype=torch.bool)
        for tokens in (candidates.always, self._special, torch.tensor(more)):
            possible[:, tokens.long()] = True
        for row, source in zip(possible, sources, strict=True):
            ids = torch.tensor(source)
            row[ids] = True
            row[candidates.by_token[ids].flatten().long()] = True
        tokens = possible[:, :-1].any(0).nonzero()[:, 0]
        if isinstance(self._rows, Int8Rows):
            readout: Any = self._rows.layer(tokens)
        else:
            readout = self._rows[tokens].to(self.engine.readout_weight.dtype)
        bias = None if self._bias is None else self._bias[tokens]
        return NarrowedEngine(self.engine, tokens, possible[:, tokens], readout, bias)


class NarrowedEngine:
    """A model whose tokens are numbered among some tokens of its vocabulary."""

    def __init__(
        self,
        engine: StepEngine,
        tokens: Int[Tensor, " tokens"],
        possible: Bool[Tensor, "sentences tokens"],
        readout: Any,
        bias: Tensor | None,
    ):
        self.engine, self.tokens, self.readout, self.bias = engine, tokens, readout, bias
        # Texts that are translated together share the product, but each has its own shortlist.
        self._impossible = None if bool(possible.all()) else ~possible
        self.begin, self.end = self.numbers((BOS, EOS))

    def step(self, tokens: Int[Tensor, " rows"], state: TranslatorState) -> Float[Tensor, "rows tokens"]:
        """The logits of the tokens after these; advances the state."""
        states = self.engine.step_states(self.tokens[tokens], state)
        logits = linear(states, self.readout, self.bias)
        if self._impossible is None:
            return logits
        return logits.masked_fill_(self._impossible[state.sentences], -torch.inf)

    def numbers(self, ids: Sequence[int]) -> list[int]:
        """The numbers of tokens of the vocabulary."""
        return torch.searchsorted(self.tokens, torch.tensor(ids, dtype=torch.long)).tolist()

    def restored(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Hypotheses with tokens of the vocabulary."""
        ids = self.tokens.tolist()
        return [[replace(one, tokens=[ids[token] for token in one.tokens]) for one in best] for best in found]
