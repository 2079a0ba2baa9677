"""A pre-trained encoder in use: masks filled, sentences as vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.inspection.explanation import Explanation, explain_pass, text_tokens, with_next
from clearhead.layers.layout import PaddedText
from clearhead.layers.positions import check_length
from clearhead.models import Encoder
from clearhead.models.heads import mean_pool
from clearhead.options import as_texts, check_text
from clearhead.tasks.classification.data import shorten
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.masked.loss import predicting
from clearhead.tasks.model import TaskModel
from clearhead.text.masks import WRITTEN, MaskedText, encode_masked
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import PAD, Tokenizer

# Positions of a batch, rows times length.
BATCH_TOKENS = 16384


@dataclass(frozen=True)
class Candidate:
    """A token that may stand for a mask."""

    token: str
    """Readable; ▁ stands for a space."""
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text whose masks were filled."""

    text: str
    """The text with masks."""
    filled: str
    """The same with the most likely token for each mask."""
    masks: tuple[tuple[Candidate, ...], ...]
    """The most likely tokens of each mask, given the text around all of them."""

    def __str__(self) -> str:
        return self.filled


class MaskedModel(TaskModel):
    """An encoder that predicts masked tokens, with its tokenizer."""

    task = "masked"
    evaluate_unit = "batch"

    def __init__(self, model: Encoder, processor: TextProcessor, settings: Mapping[str, Any] | None = None):
        self.model, self.processor = model.eval(), processor
        self.settings = settings or {}
        """The settings of the run that trained it."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "MaskedModel":
        model, processor = checkpoint.model, checkpoint.processor
        assert isinstance(model, Encoder)
        if not model.predicts_tokens or processor.tokenizer.mask_id is None:
            raise ModelError(f"{processor.FILE}: has no mask token; this model fills no masks")
        return cls(model, processor, checkpoint.settings)

    def facts(self) -> list[str]:
        return [f"vocabulary {self.tokenizer.size:,}", f"at most {self.max_length:,} tokens"]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.processor.tokenizer

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, with those around it."""
        return self.model.config.max_length

    @overload
    def fill(self, texts: str, *, top: int = 5) -> Filled: ...
    @overload
    def fill(self, texts: list[str], *, top: int = 5) -> list[Filled]: ...
    @torch.inference_mode()
    def fill(self, texts: str | list[str], *, top: int = 5) -> Filled | list[Filled]:
        """Fills each [MASK] of a text, or of several; each has the `top` most likely tokens."""
        if not isinstance(top, int) or top < 1:
            raise SettingsError(f"top: {top!r} should be the number of candidates, 1 or more")
        several = as_texts(texts)
        masked = [self._masked(text, number) for number, text in enumerate(several, start=1)]
        rows = [self._delimited(one.ids) for one in masked]
        found: dict[int, Filled] = {}
        for batch in self._batches(rows):
            tokens, lengths = self._padded([rows[row] for row in batch])
            masks_at = (tokens == self.tokenizer.mask_id).nonzero()
            states = self.model.states(tokens, PaddedText(lengths))
            columns = predicting(self.model.config.head, masks_at[:, 1])
            best = self.probabilities(self.model.readout(states[masks_at[:, 0], columns])).topk(
                min(top, len(self.model.readout_weight))
            )
            for index, row in enumerate(batch):
                here = masks_at[:, 0] == index
                each = zip(best.indices[here].tolist(), best.values[here].tolist(), strict=True)
                masks = tuple(self._candidates(ids, values) for ids, values in each)
                filled = masked[row].filled([candidates[0].token for candidates in masks])
                found[row] = Filled(several[row], filled, masks)
        results = [found[row] for row in range(len(several))]
        return results[0] if isinstance(texts, str) else results

    @torch.inference_mode()
    def vectors(self, texts: str | list[str]) -> Float[Tensor, "texts width"]:
        """A vector for each text: the mean of the states of its tokens (Reimers and Gurevych 2019).

        Of a text that is too long, the beginning and the end count.
        """
        several = as_texts(texts)
        room = self.max_length - len(self._delimited([]))
        encoded = self.tokenizer.encode_batch(several)
        rows = [self._delimited(shorten(ids, room)) for ids in encoded]
        vectors = torch.zeros(len(rows), self.model.config.width, device=self.device)
        for batch in self._batches(rows):
            tokens, lengths = self._padded([rows[row] for row in batch])
            vectors[batch] = mean_pool(self.model.states(tokens, PaddedText(lengths)).float(), lengths)
        return vectors

    def explain(self, text: str, *, names: Sequence[str] = ("*",)) -> Explanation:
        """One captured pass over a text, with or without masks; keeps only tensors whose names match."""
        check_text(text)
        filled = self.fill(text, top=1) if WRITTEN in text else None
        ids = self._delimited(self._encoded(text).ids)
        tokens, lengths = self._padded([ids])
        with torch.inference_mode():
            best = self.probabilities(self.model(tokens, lengths)[0]).argmax(-1)
        shift = predicting(self.model.config.head, torch.arange(len(ids))).tolist()
        mask, pairs = self.tokenizer.mask_id, zip(ids, shift, strict=True)
        known = [int(best[at]) if one == mask else one for one, at in pairs]
        # The last position predicts nothing: it is the end of the text, or has no token after it.
        following = known[:-1] if self.model.config.head.predict_from == "mask" else known[1:]
        explanation = explain_pass(
            self.model,
            lambda: self.model(tokens, lengths)[0],
            {"text": with_next(text_tokens(self.tokenizer, ids), following)},
            names,
            self.tokenizer,
            text,
            filled.filled if filled else "",
        )
        return replace(explanation, normalized=self.tokenizer.normalized(text), name=self.name, found=filled)

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        text: str | Sequence[str] = (),
        field: str | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Accuracy and loss of masked tokens in text files, or in the text held out in the folder."""
        from clearhead.tasks.masked.evaluate import evaluate

        folder = self._held_out(folder)
        return evaluate(self, folder, text=as_texts(text), field=field, progress=progress, reading=reading)

    def about(self) -> dict[str, Any]:
        """The limits of the model, for the explorer."""
        return {"max_tokens": self.max_length - len(self._delimited([]))}

    def probabilities(self, logits: Float[Tensor, "*any vocabulary"]) -> Float[Tensor, "*any vocabulary"]:
        """Of all tokens but special ones, which no text has."""
        tokenizer = self.tokenizer
        special = {*range(len(tokenizer.special_tokens)), tokenizer.bos_id, tokenizer.mask_id}
        suppressed = sorted(one for one in {*special, *tokenizer.eos_ids} if one is not None)
        logits = logits.float().clone()
        logits[..., suppressed] = float("-inf")
        return logits.softmax(-1)

    def _candidates(self, ids: Sequence[int], probabilities: Sequence[float]) -> tuple[Candidate, ...]:
        pieces = map(self.tokenizer.piece, ids)
        return tuple(
            Candidate(piece, one) for piece, one in zip(pieces, probabilities, strict=True) if one > 0
        )

    def _masked(self, text: str, number: int) -> MaskedText:
        """The ids of a text that must have masks."""
        if WRITTEN not in text:
            raise TextError(
                f"text {number}: has no {WRITTEN}; write {WRITTEN} where a word is missing: "
                f"'The {WRITTEN} drinks milk.'"
            )
        masked = self._encoded(text)
        if len(masked.spans) < text.count(WRITTEN):
            raise TextError(f"text {number}: has two masks in one word; put a space between them")
        return masked

    def _encoded(self, text: str) -> MaskedText:
        masked = encode_masked(self.tokenizer, text)
        check_length(len(self._delimited(masked.ids)), self.max_length)
        return masked

    def _delimited(self, ids: Sequence[int]) -> list[int]:
        """The ids between the tokens that begin and end a text."""
        start, end = self.tokenizer.bos_id, self.tokenizer.eos_id
        return [*([] if start is None else [start]), *ids, *([] if end is None else [end])]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(row) for row in rows])
        tokens = torch.full((len(rows), int(lengths.max())), PAD)
        for row, ids in zip(tokens, rows, strict=True):
            row[: len(ids)] = torch.tensor(ids)
        return tokens.to(self.device), lengths.to(self.device)

    def _batches(self, rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Numbers of rows of similar length, for a batch each."""
        batch: list[int] = []
        for row in sorted(range(len(rows)), key=lambda row: len(rows[row])):
            if batch and (len(batch) + 1) * len(rows[row]) > BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch
