"""A trained classifier in use: texts in, labels and probabilities out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.bags import UNKNOWN, BagVocabulary, words_of
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.columns import Columns
from clearhead.data.store import TokenSequences
from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.inspection.explanation import Explanation, explain_pass, text_tokens
from clearhead.inspection.relevance import DeletionTest, Relevance
from clearhead.models import Bag, BiLSTM, Encoder
from clearhead.options import as_texts, check_text
from clearhead.tasks.classification.data import LabelledBatch, LabelledBatches, encode
from clearhead.tasks.classification.evaluate import deletion_lines, evaluate, sample_texts
from clearhead.tasks.classification.relevance import relevance_of, tested
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.model import TaskModel, listed
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer

Logits = Float[Tensor, "texts classes"]
THRESHOLD = 0.5
"""The probability from which on a text gets a label, if it may have several."""
# Positions of a batch, rows times length.
BATCH_TOKENS = 16384


@dataclass(frozen=True)
class Classification:
    """The class of a text, or all its labels."""

    text: str
    label: str
    """The most likely one."""
    probabilities: dict[str, float]
    """Of all labels; they add up to 1 unless a text may have several."""
    unknown: tuple[str, ...] = ()
    """Words outside the vocabulary: a bag leaves them out, a sequence model reads <unk>."""
    labels: tuple[str, ...] | None = None
    """Those above the threshold, the most likely first, if a text may have several; else None."""

    def __str__(self) -> str:
        return self.label if self.labels is None else ", ".join(self.labels)

    @property
    def probability(self) -> float:
        return self.probabilities[self.label]


class ClassificationModel(TaskModel, ABC):
    """A classifier with its labels; a subclass knows what its model reads."""

    task = "classification"
    evaluate_unit: ClassVar[str] = "text"

    def __init__(self, model: Any, processor: Any):
        self.model, self.processor = model.eval(), processor
        self.labels: tuple[str, ...] = processor.labels
        self.multi_label: bool = processor.multi_label

    @staticmethod
    def from_checkpoint(checkpoint: Checkpoint) -> "ClassificationModel":
        kind = BagModel if isinstance(checkpoint.model, Bag) else SequenceModel
        if len(checkpoint.processor.labels) < 2:
            raise ModelError(f"{checkpoint.processor.FILE}: has no labels; this model classifies nothing")
        return kind(checkpoint.model, checkpoint.processor)

    def facts(self) -> list[str]:
        return [listed(self.labels)]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def classify(self, texts: str, *, threshold: float = THRESHOLD) -> Classification: ...
    @overload
    def classify(self, texts: list[str], *, threshold: float = THRESHOLD) -> list[Classification]: ...
    def classify(
        self, texts: str | list[str], *, threshold: float = THRESHOLD
    ) -> Classification | list[Classification]:
        """The class of a text, or of each of several; a blank text is classified as an empty one.

        If a text may have several labels, it gets those whose probability is at least the threshold.
        """
        several = as_texts(texts)
        if not 0 < threshold < 1:
            raise SettingsError(f"threshold: {threshold:g} is not between 0 and 1")
        if not several:
            return []
        found = []
        for text, row in zip(
            several, self.log_probabilities(self.logits(several)).exp().tolist(), strict=True
        ):
            probabilities = dict(zip(self.labels, row, strict=True))
            ranked = sorted(probabilities, key=lambda label: -probabilities[label])
            labels = tuple(label for label in ranked if probabilities[label] >= threshold)
            chosen = labels if self.multi_label else None
            found.append(Classification(text, ranked[0], probabilities, self.unknown_words(text), chosen))
        return found[0] if isinstance(texts, str) else found

    def log_probabilities(self, logits: Logits) -> Logits:
        """Of being the one label of a text, or of being one of several."""
        return F.logsigmoid(logits) if self.multi_label else logits.log_softmax(-1)

    @abstractmethod
    def logits(self, texts: Sequence[str]) -> Logits:
        """The logits of the classes of texts."""

    @abstractmethod
    def unknown_words(self, text: str) -> tuple[str, ...]:
        """The words of a text outside the vocabulary."""

    @abstractmethod
    def evidence(self, text: str, label: str | None = None) -> dict[str, float]:
        """What each part of a text adds to the logit of a label, the most first; by default, of its own."""

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        labels: str | None = None,
        columns: Columns | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Accuracy, F1, calibration and the confusion matrix on labelled texts, or on those of the recipe."""
        folder = self._held_out(folder)
        return evaluate(self.logits, self.labels, folder, labels, progress, self.multi_label, columns)

    def _class(self, text: str, label: str | None) -> int:
        check_text(text)
        label = self.classify(text).label if label is None else label
        if label not in self.labels:
            raise TextError(f"label: {label!r} is not one of {', '.join(self.labels)}")
        return self.labels.index(label)


class BagModel(ClassificationModel):
    """A bag of words in use; its evidence is exact, and it has no states to capture."""

    model: Bag
    processor: BagVocabulary

    @torch.no_grad()
    def logits(self, texts: Sequence[str]) -> Logits:
        return self.model(self.processor.encode(texts))

    def unknown_words(self, text: str) -> tuple[str, ...]:
        words = words_of(text, self.processor.lowercase)
        known = self.processor.encode([text]).ids.tolist()
        return tuple(dict.fromkeys(w for w, number in zip(words, known, strict=True) if number == UNKNOWN))

    def evidence(self, text: str, label: str | None = None) -> dict[str, float]:
        """The weight of each n-gram of the text towards a label; they and the bias add up to its margin."""
        number = self._class(text, label)
        [found] = self.model.contributions(self.processor.encode([text]), number)
        named = {self.processor.text(ngram): added for ngram, added in found.items()}
        return dict(sorted(named.items(), key=lambda item: -abs(item[1])))


class SequenceModel(ClassificationModel):
    """A bidirectional LSTM or an encoder in use."""

    model: BiLSTM | Encoder
    processor: TextProcessor

    @property
    def tokenizer(self) -> Tokenizer:
        return self.processor.tokenizer

    @torch.no_grad()
    def logits(self, texts: Sequence[str]) -> Logits:
        return self.logits_of(self.encode(texts))

    def encode(self, texts: Sequence[str]) -> TokenSequences:
        """The ids of texts as the model reads them."""
        return encode(texts, self.processor, self.model.config.max_length)

    @torch.no_grad()
    def logits_of(self, sequences: TokenSequences) -> Logits:
        """The logits of the classes of texts, given by their ids."""
        none = np.zeros(len(sequences), dtype=np.int64)
        batches = LabelledBatches(sequences, none, BatchingConfig(tokens=BATCH_TOKENS))
        found = torch.empty(len(sequences), len(self.labels), device=self.device)
        for rows in batches.sequential():
            batch = batches.build(0, rows).to(self.device)
            found[torch.from_numpy(rows)] = self.model(batch.ids, batch.lengths).float()
        return found

    def unknown_words(self, text: str) -> tuple[str, ...]:
        unknown, ids = self.tokenizer.unk_id, self.tokenizer.encode(text)
        if unknown not in ids:
            return ()
        words, numbers = self.tokenizer.word_texts(text), self.tokenizer.word_numbers(text)
        found = (words[word] for word, number in zip(numbers, ids, strict=True) if number == unknown)
        return tuple(dict.fromkeys(found))

    def evidence(self, text: str, label: str | None = None) -> dict[str, float]:
        """How much the log-probability of a label falls when each word is left out."""
        number, words = self._class(text, label), text.split()
        without = [" ".join([*words[:i], *words[i + 1 :]]) for i in range(len(words))]
        whole, *others = self.log_probabilities(self.logits([text, *without]))[:, number].tolist()
        found: dict[str, float] = {}
        for word, other in zip(words, others, strict=True):
            found[word] = found.get(word, 0.0) + whole - other
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))

    def explain(self, text: str, *, names: Sequence[str] = ("*",)) -> Explanation:
        """One captured pass over a text; keeps only tensors whose names match."""
        check_text(text)
        found, sequences = self.classify(text), self.encode([text])
        batch = LabelledBatch.of(sequences, np.zeros(1, dtype=np.int64)).to(self.device)
        explanation = explain_pass(
            self.model,
            lambda: self.model(batch.ids, batch.lengths),
            {"text": text_tokens(self.tokenizer, batch.ids[0].tolist())},
            names,
            self.tokenizer,
            text=text,
            output=str(found),
            found=found,
        )
        return replace(explanation, relevance=lambda: self._relevance(sequences, found.label))

    def relevance(self, text: str, label: str | None = None) -> Relevance:
        """How much each token supports a label, by default the most likely one, and a test of that."""
        number = self._class(text, label)
        return self._relevance(self.encode([text]), self.labels[number])

    def test_explanations(self, texts: Sequence[str]) -> DeletionTest:
        """Whether the tokens that matter most by each method also decide the labels of texts."""
        sequences = self.encode(texts)
        classes = self.logits_of(sequences).argmax(-1).cpu()
        return tested(self, sequences, classes, relevance_of(self, sequences, classes))

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        labels: str | None = None,
        columns: Columns | None = None,
        explanations: int | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Accuracy, F1, calibration and the confusion matrix on labelled texts, or on those of the recipe.

        `explanations` is the number of texts on which explanations are tested too.
        """
        folder = self._held_out(folder)
        found = super().evaluate(folder, labels=labels, columns=columns, progress=progress, reading=reading)
        if explanations is None:
            return found
        if explanations < 1:
            raise SettingsError(f"explanations: {explanations} texts are too few; pass 1 or more")
        test = self.test_explanations(sample_texts(labels, folder, explanations, columns))
        lines = (*found.lines, *deletion_lines(test))
        return replace(found, lines=lines, record={**found.record, "explanations": test.record()})

    def _relevance(self, sequences: TokenSequences, label: str) -> Relevance:
        classes = torch.tensor([self.labels.index(label)])
        found = relevance_of(self, sequences, classes)
        test = tested(self, sequences, classes, found)
        return Relevance(label, "text", {method: values[0] for method, values in found.items()}, test)
