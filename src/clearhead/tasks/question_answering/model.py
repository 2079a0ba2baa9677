"""A trained model that answers questions about texts."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, overload

import torch

from clearhead.checkpoint import SETTINGS, Checkpoint
from clearhead.config import parse_settings
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.questions import Question
from clearhead.errors import ModelError, TextError
from clearhead.inspection.explanation import Explanation, Token, explain_pass, text_tokens
from clearhead.models import Encoder
from clearhead.options import as_texts, check_text
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.model import TaskModel
from clearhead.tasks.question_answering.answering import Answer, batches_for, find_answers
from clearhead.tasks.question_answering.data import QuestionBatch, read_out
from clearhead.tasks.question_answering.encoding import QuestionEncoder
from clearhead.tasks.question_answering.evaluate import evaluate
from clearhead.tasks.question_answering.recipe import HEADS, AnswersConfig
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer

# Positions of a batch, rows times length.
BATCH_TOKENS = 16384
LAST_SENTENCE = re.compile(r"(.*[.!?])\s+(.+)", re.DOTALL)


class QuestionAnsweringModel(TaskModel):
    """An encoder that finds answers in a text, or chooses among the answers seen in training."""

    task = "question_answering"
    evaluate_unit: ClassVar[str] = "question"

    def __init__(self, model: Encoder, processor: TextProcessor, config: AnswersConfig):
        self.model, self.processor, self.config = model.eval(), processor, config
        self.encoder = QuestionEncoder(processor, model.config, config.stride)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "QuestionAnsweringModel":
        model: Any = checkpoint.model
        if model.config.head.kind not in HEADS:
            raise ModelError(f"{SETTINGS}: a head of kind '{model.config.head.kind}' answers no questions")
        if model.config.head.kind == "classifier" and not checkpoint.processor.labels:
            raise ModelError(f"{checkpoint.processor.FILE}: has no answers; copy the file again")
        settings = checkpoint.settings.get("answers", {})
        return cls(model, checkpoint.processor, parse_settings(AnswersConfig, settings, group="answers"))

    def facts(self) -> list[str]:
        return [f"vocabulary {self.tokenizer.size:,}"]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.processor.tokenizer

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def answer(self, question: str, context: str, *, threshold: float | None = ...) -> Answer: ...
    @overload
    def answer(self, question: list[str], context: str, *, threshold: float | None = ...) -> list[Answer]: ...
    def answer(
        self, question: str | list[str], context: str, *, threshold: float | None = None
    ) -> Answer | list[Answer]:
        """The answer to a question about a text, or to each of several; `threshold` replaces the model's."""
        several = as_texts(question, "question")
        check_text(context, "context")
        if not context.strip():
            raise TextError("context: is empty; pass the text that holds the answer")
        for number, one in enumerate(several, start=1):
            if not one.strip():
                raise TextError(f"question {number}: is blank; pass a question")
        found = self.answer_all([Question(context, one, ()) for one in several], threshold)
        return found[0] if isinstance(question, str) else found

    def answer_all(self, questions: Sequence[Question], threshold: float | None = None) -> list[Answer]:
        """The answers to questions about any texts."""
        if not questions:
            return []
        config = self.config if threshold is None else self.config.model_copy(update={"threshold": threshold})
        batches = batches_for(self.encoder.rows(questions), self.model.config.max_length, BATCH_TOKENS)
        return find_answers(self.model, self.encoder, questions, config, batches)

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        data: str | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Exact match and F1 on a file, or on the test files of the recipe, or on the questions held out."""
        return evaluate(self, self._held_out(folder), data, progress)

    def explain(self, text: str, *, context: str | None = None, names: Sequence[str] = ("*",)) -> Explanation:
        """One captured pass over a question and its context; keeps only tensors whose names match.

        Without a context, the last line of the text is the question, or else its last sentence. Of a long
        context, the window that holds the answer is shown.
        """
        check_text(text)
        question, context = (text, context) if context is not None else _split(text)
        answer = self.answer(question, context)
        batch = self._window(Question(context, question, ()), answer)
        length = int(batch.contexts[0]) + 2
        ids = batch.ids[0].tolist()
        tokens = _joined(*(text_tokens(self.tokenizer, part) for part in (ids[:length], ids[length:])))
        moved = batch.to(self.device)
        return replace(
            explain_pass(
                self.model,
                lambda: read_out(self.model, moved),
                {"text": tokens},
                names,
                self.tokenizer,
                text=text,
                output=answer.text or "no answer",
            ),
            found=answer,
        )

    def about(self) -> dict[str, Any]:
        return {"max_tokens": self.model.config.max_length}

    def _window(self, question: Question, answer: Answer) -> QuestionBatch:
        """The row in which an answer begins, without padding."""
        rows = self.encoder.rows([question])
        row = 0
        if answer.start is not None:
            [text] = self.encoder.texts([question.context])
            position = text.tokens(answer.start, answer.end or 0)[0] - rows.first + 1
            row = int(((rows.owned[:, 0] <= position) & (position < rows.owned[:, 1])).argmax())
        length = int(rows.tokens.lengths[row])
        batches = batches_for(rows, self.model.config.max_length, 1)
        return batches.build(0, (length, row + rows.questions[:1]))


def _split(text: str) -> tuple[str, str]:
    """The question at the end of a text, and what comes before it."""
    before, _, last = text.strip().rpartition("\n")
    found = LAST_SENTENCE.fullmatch(text.strip())
    if not before.strip() and found:
        before, last = found[1], found[2]
    if not before.strip():
        raise TextError(
            "text: has no context; write it before the question, and the question in the last line"
        )
    return last, before


def _joined(first: list[Token], second: list[Token]) -> list[Token]:
    """The tokens of two texts, whose words are numbered on."""
    words = 1 + max((token.word for token in first if token.word is not None), default=-1)
    return [
        *first,
        *(token if token.word is None else replace(token, word=token.word + words) for token in second),
    ]
