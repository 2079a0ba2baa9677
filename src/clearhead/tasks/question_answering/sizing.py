"""A recipe sized to a file of questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.examples import check_examples
from clearhead.data.sources.questions import Question
from clearhead.errors import DataError
from clearhead.models import EncoderConfig
from clearhead.models.heads import ClassifierConfig, SpanConfig
from clearhead.tasks.question_answering.data import Questions, reasons
from clearhead.tasks.question_answering.recipe import (
    AnswersConfig,
    QuestionAnsweringRecipe,
    QuestionAnsweringTraining,
    QuestionsConfig,
)
from clearhead.tasks.question_answering.spans import occurrences
from clearhead.tasks.sizing import FittedRecipe, setting, steps_of, with_changes
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training.schedule import CosineSchedule
from clearhead.wording import counted

# If more of the answers than this are in their texts, they are spans.
SPAN_SHARE = 0.9
# More different answers than this cannot be learned as classes.
MAX_ANSWERS = 1000
# From this many questions on, a wider model pays.
MANY = 20_000
EPOCHS, BATCH_TOKENS = 10, 4096


@dataclass(frozen=True)
class FittedQuestions(FittedRecipe):
    """A recipe and the questions that it is sized to."""

    recipe: QuestionAnsweringRecipe
    questions: Questions

    def choices(self) -> list[str]:
        """The choices, one per line."""
        found, model, run = self.questions, self.recipe.model, self.recipe.training
        spans = model.head.kind == "span"
        answers = "parts of the texts" if spans else f"one of {len(found.labels):,} known answers"
        lines = [
            f"questions: {len(found.train):,} to train on, {len(found.validation):,} for validation; answers "
            f"are {answers}"
        ]
        if self.recipe.answers.threshold is not None:
            without = sum(not question.answers for question in found.train)
            lines.append(f"{counted(without, 'question')} without an answer, which the model learns to say")
        if found.left_out:
            lines.append(reasons(found.left_out))
        validated = f"validated every {run.validate_every:,}; the best model is kept"
        if not found.validation:
            validated = "not validated, as no text is held out; data.validation may name a file"
        return [
            *lines,
            f"model: {model.kind}, width {model.width}, {counted(model.layers, 'layer')}, rows of up to "
            f"{model.max_length} tokens",
            f"run: {counted(run.steps, 'step')}, {validated}",
        ]


def fit_questions(
    paths: Sequence[str], changes: Sequence[str] = (), progress: ProgressCallback = ignore_progress
) -> FittedQuestions:
    """Reads the questions once and sizes a recipe to them; changes such as 'model.width=256' come first."""
    requested = apply_overrides({"data": {"train": list(paths)}}, changes)
    data = parse_settings(QuestionsConfig, requested["data"], group="data")
    check_examples(data.paths)
    with track_progress(map(Path, data.train), progress):
        known = Questions.read(data, "classifier", seed=1)
    head = _head(known.train, _requested_head(requested))
    questions = known if head == "classifier" else Questions.read(data, head, seed=1)
    recipe = _recipe(data, questions, head, steps_of(requested, 0))
    return FittedQuestions(with_changes(recipe, requested, changes), questions)


def _requested_head(requested: Mapping[str, Any]) -> str | None:
    head = setting(requested, "model", "head")
    return head.get("kind") if isinstance(head, Mapping) else None


def _head(questions: Sequence[Question], requested: str | None) -> str:
    """The head that fits the answers: a span if they are in their texts, and not in stories with facts."""
    if requested:
        return requested
    if any(question.facts for question in questions):
        return "classifier"
    inside = np.mean([bool(occurrences(one.context, one.answers, one.starts)) for one in questions])
    if inside > SPAN_SHARE:
        return "span"
    different = len({one.answers[0] for one in questions})
    if different > MAX_ANSWERS:
        raise DataError(
            f"{different:,} different answers, of which {1 - inside:.0%} are not in their context, can be "
            "learned neither as spans nor as classes; fix the answers, or set model.head.kind to span"
        )
    return "classifier"


def _recipe(
    data: QuestionsConfig, questions: Questions, head: str, requested_steps: int
) -> QuestionAnsweringRecipe:
    words = np.array([len(one.context.split()) + len(one.question.split()) for one in questions.train])
    # Subwords and punctuation are tokens of their own.
    max_length = int(min(384, max(64, 1.5 * np.quantile(words, 0.98))))
    tokens = np.minimum(1.4 * words, max_length).sum()
    steps = requested_steps or max(500, int(EPOCHS * tokens / BATCH_TOKENS))
    every = max(50, steps // 20)
    spans, many = head == "span", len(questions.train) >= MANY
    unanswerable = any(not one.answers for one in questions.train)
    return QuestionAnsweringRecipe(
        data=data,
        tokenizer=TokenizerConfig(vocabulary=8000, lowercase=True)
        if spans
        else TokenizerConfig(kind="word", vocabulary=8000, lowercase=True),
        model=EncoderConfig(
            layers=4,
            width=256 if many and spans else 128,
            ffn_width=1024 if many and spans else 512,
            max_length=max_length,
            token_types=5 if spans else 3,
            head=SpanConfig() if spans else ClassifierConfig(pooling="last"),
        ),
        batches=BatchingConfig(tokens=BATCH_TOKENS, row_length=max(16, max_length // 4)),
        answers=AnswersConfig(threshold=0.0 if spans and unanswerable else None),
        training=QuestionAnsweringTraining(
            steps=steps,
            schedule=CosineSchedule(learning_rate=1e-3, warmup=max(1, steps // 20)),
            validate_every=every,
            save_every=every,
        ),
    )
