"""Answers of a model: the best span over all windows of a text, or the most likely known answer."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.sources.questions import Question
from clearhead.models import Encoder
from clearhead.tasks.question_answering.data import QuestionBatches, read_out
from clearhead.tasks.question_answering.encoding import QuestionEncoder, QuestionRows
from clearhead.tasks.question_answering.recipe import AnswersConfig
from clearhead.tasks.question_answering.spans import best_spans


@dataclass(frozen=True)
class Answer:
    """The answer to a question."""

    question: str
    text: str
    """Empty if the text holds no answer."""
    score: float
    """Its probability among all spans, or among all known answers."""
    start: int | None = None
    """Where a span begins in the context, in characters."""
    end: int | None = None
    """One past its last character."""
    margin: float | None = None
    """By how much the score of "no answer" exceeds that of the best span; compared with the threshold."""

    best_span: str = ""
    """The best span, even where there is no answer."""

    def __str__(self) -> str:
        return self.text


def find_answers(
    model: Encoder,
    encoder: QuestionEncoder,
    questions: Sequence[Question],
    config: AnswersConfig,
    batches: QuestionBatches,
    autocast: AbstractContextManager | None = None,
) -> list[Answer]:
    """The answers to questions whose rows are in `batches`."""
    find = find_spans if encoder.finds_spans else find_classes
    return find(model, encoder, questions, config, batches, autocast or nullcontext())


def batches_for(rows: QuestionRows, max_length: int, tokens: int) -> QuestionBatches:
    """Batches for a pass without training."""
    return QuestionBatches(rows, BatchingConfig(tokens=tokens, row_length=64), max_length)


@torch.no_grad()
def find_spans(
    model: Encoder,
    encoder: QuestionEncoder,
    questions: Sequence[Question],
    config: AnswersConfig,
    batches: QuestionBatches,
    autocast: AbstractContextManager,
) -> list[Answer]:
    """The best span over all windows of each text, or "no answer"."""
    rows, device = batches.rows, next(model.parameters()).device
    # score, start, end, total, nothing; the positions are exact in 64 bits.
    found = torch.empty(5, len(rows.questions), dtype=torch.float64)
    for plan in batches.sequential():
        batch = batches.build(0, plan).to(device)
        with autocast:
            logits = read_out(model, batch)
        best = best_spans(logits, batch.contexts, batch.owned, config.max_tokens)
        numbers = torch.from_numpy(plan[1])
        found[:, numbers] = torch.stack([one.double() for one in best])[:, : len(numbers)].cpu()
    score, start, end, total, nothing = found.numpy()
    contexts = dict.fromkeys(question.context for question in questions)
    texts = dict(zip(contexts, encoder.texts(list(contexts)), strict=True))
    answers = []
    for number, windows in enumerate(_windows_of(rows)):
        row = windows[int(np.argmax(score[windows]))]
        # A window without the answer says "no answer": so the least of these scores counts.
        none = float(nothing[windows].min())
        margin = none - float(score[row])
        # Without a threshold, "no answer" is no candidate.
        empty = config.threshold is not None and margin > config.threshold
        scores = total[windows] if config.threshold is None else [*total[windows], none]
        chosen = none if empty else float(score[row])
        probability = float(np.exp(chosen - np.logaddexp.reduce(scores)))
        question, shift = questions[number], int(rows.first[row]) - 1
        text = texts[question.context]
        first, last = text.characters(int(start[row]) + shift, int(end[row]) + shift)
        span = text.text[first:last]
        found = ("", probability, None, None) if empty else (span, probability, first, last)
        answers.append(Answer(question.question, *found, margin, span))
    return answers


@torch.no_grad()
def find_classes(
    model: Encoder,
    encoder: QuestionEncoder,
    questions: Sequence[Question],
    config: AnswersConfig,
    batches: QuestionBatches,
    autocast: AbstractContextManager,
) -> list[Answer]:
    """The most likely of the answers seen in training."""
    labels, device = encoder.labels, next(model.parameters()).device
    found = torch.empty(len(questions), len(labels))
    for plan in batches.sequential():
        batch = batches.build(0, plan).to(device)
        with autocast:
            logits = read_out(model, batch)
        numbers = torch.from_numpy(plan[1])
        found[numbers] = logits[: len(numbers)].float().softmax(-1).cpu()
    scores, classes = found.max(-1)
    return [
        Answer(question.question, labels[number], score)
        for question, score, number in zip(questions, scores.tolist(), classes.tolist(), strict=True)
    ]


def _windows_of(rows: QuestionRows) -> list[np.ndarray]:
    """The rows of each question; rows are in the order of their questions."""
    changes = np.flatnonzero(np.diff(rows.questions)) + 1
    return np.split(np.arange(len(rows.questions)), changes)
