"""A counted n-gram model in use: prompts in, continuations out."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import TextError
from clearhead.models import Ngram
from clearhead.models.ngram import IMPOSSIBLE, NgramState
from clearhead.options import as_texts
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.language.model import LanguageModel, PromptFormat
from clearhead.tasks.language.sliding_window import left_padded
from clearhead.tasks.ngrams.recipe import Unit
from clearhead.tasks.scoring import TextScore
from clearhead.text.tokenizer import BOS, EOS, UNK, Tokenizer


@dataclass(frozen=True)
class Prediction:
    """How one token of a text was predicted."""

    token: str
    context: tuple[str, ...]
    """The longest context after which the token was seen in training; empty if only the token itself was."""
    order: int
    """The number of words of that n-gram, the token included; 0 for a token that was never seen."""
    probabilities: tuple[float, ...]
    """By n-grams up to each order: the chain of interpolation from order 1 up."""
    probability: float
    """With skips and cache, if the model has them."""


class NgramWindow:
    """Decoding steps of an n-gram model, which no text is too long for."""

    def __init__(self, model: Ngram):
        self.model = model

    def start(self, texts: Sequence[Sequence[int]]) -> NgramState:
        """The state after each text but its last token, which `step` takes."""
        tokens, _ = left_padded([text[:-1] for text in texts], self.model.device)
        return self.model.start(tokens)

    def step(self, tokens: Int[Tensor, " rows"], state: NgramState) -> Float[Tensor, "rows vocabulary"]:
        return self.model.step(tokens, state)


class NgramModel(LanguageModel):
    """An n-gram model with its tokenizer; it generates, and is evaluated, like any language model."""

    task = "ngrams"
    evaluate_unit = "token"

    def __init__(self, model: Ngram, tokenizer: Tokenizer, sentences: Unit, test: Sequence[str] = ()):
        super().__init__(model, tokenizer, PromptFormat(start=(BOS,)))
        self.sentences: Unit = sentences
        self.test = tuple(test)
        """The files that are scored unless others are named."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "NgramModel":
        assert isinstance(checkpoint.model, Ngram)
        data = checkpoint.settings.get("data")
        data = data if isinstance(data, Mapping) else {}
        unit: Unit = "documents" if data.get("sentences") == "documents" else "lines"
        return cls(
            checkpoint.model, checkpoint.processor, unit, data.get("test") or data.get("validation", ())
        )

    def facts(self) -> list[str]:
        return [f"order {self.model.config.order}", f"vocabulary {self.tokenizer.size:,}"]

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def context_length(self) -> int:
        """No text is too long: what lies too far back has no influence."""
        return sys.maxsize

    @property
    def pads(self) -> bool:
        return True

    def window(self, capacity: int) -> NgramWindow:
        return NgramWindow(self.model)

    def about(self) -> dict[str, Any]:
        return {"max_tokens": None}

    def encode(self, prompt: str, name: str = "prompt 1") -> list[int]:
        """The ids of a prompt; where lines are sentences, each but the last ends in </s>."""
        lines = prompt.split("\n") if self.sentences == "lines" else [prompt]
        ids: list[int] = []
        for line in [line for line in lines if line.strip()] or [prompt]:
            ids += [*([EOS] if ids else []), *super().encode(line, name)]
        return ids

    def unknown(self, prompt: str) -> int:
        """The number of words of a prompt outside the vocabulary; the model backs off after them."""
        return self.tokenizer.encode(prompt).count(UNK)

    @torch.no_grad()
    def predictions(self, text: str) -> list[Prediction]:
        """How each token of a text is predicted: by which n-grams, and with what probability."""
        ids = [*self.encode(text), EOS]
        tokens, pieces = torch.tensor(ids, device=self.device), self.tokenizer.pieces(ids)
        chain, found = self.model.chain(tokens), self.model.probabilities(tokens).tolist()
        rows = zip(chain.matched.tolist(), chain.probabilities.tolist(), strict=True)
        return [
            Prediction(
                pieces[position],
                tuple(pieces[position - max(order, 1) + 1 : position]),
                order,
                tuple(probabilities),
                found[position],
            )
            for position, (order, probabilities) in enumerate(rows)
            if ids[position] != BOS
        ]

    @overload
    def score(self, texts: str, *, prompt: str = "") -> TextScore: ...
    @overload
    def score(self, texts: list[str], *, prompt: str = "") -> list[TextScore]: ...
    def score(self, texts: str | list[str], *, prompt: str = "") -> TextScore | list[TextScore]:
        """The log-probability of a text, </s> included, or of each of several, after a prompt if any."""
        several, found = as_texts(texts), []
        # The prompt does not end: its </s> is not part of the text.
        before = len(self.predictions(prompt)) - 1 if prompt else 0
        for text in several:
            each = self.predictions(prompt + text)[before:]
            log_probs = (log(max(one.probability, IMPOSSIBLE)) for one in each)
            found.append(TextScore(text, tuple(one.token for one in each), tuple(log_probs)))
        return found[0] if isinstance(texts, str) else found

    def evaluate(  # pyright: ignore[reportIncompatibleMethodOverride], as it has no window to move
        self,
        folder: Path | str | None = None,
        *,
        text: str | Sequence[str] = (),
        field: str | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Perplexity on text files, on the test text of the recipe, or on that held out in the folder."""
        from clearhead.tasks.ngrams.evaluate import evaluate

        folder = self._held_out(folder)
        return evaluate(self, folder, text=as_texts(text), field=field, progress=progress, reading=reading)

    def _check_known(self, prompt: str, ids: Sequence[int], name: str) -> None:
        if set(ids) == {UNK}:
            raise TextError(f"{name}: no word of {prompt!r:.40} is in the model's vocabulary; use others")
