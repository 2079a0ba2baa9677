"""The question-answering task: its loss, data, validation and model card."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.progress import track_progress
from clearhead.data.sources.examples import check_examples, examples_hash
from clearhead.data.sources.questions import Question
from clearhead.evaluation.metric import EXACT_MATCH, F1, LOSS
from clearhead.models import Encoder
from clearhead.tasks.card import card, data_line, parameter_count
from clearhead.tasks.events import Note
from clearhead.tasks.init_from import INIT_FROM, tokenizer_of
from clearhead.tasks.question_answering.answering import find_answers
from clearhead.tasks.question_answering.data import (
    QuestionBatch,
    QuestionBatches,
    Questions,
    read_out,
    reasons,
)
from clearhead.tasks.question_answering.encoding import QuestionEncoder
from clearhead.tasks.question_answering.evaluate import VALIDATION, Scores
from clearhead.tasks.question_answering.model import QuestionAnsweringModel
from clearhead.tasks.question_answering.recipe import QuestionAnsweringRecipe
from clearhead.tasks.question_answering.spans import span_loss
from clearhead.tasks.records import write_examples
from clearhead.tasks.task import RunContext, Task
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer
from clearhead.wording import counted


class QuestionAnsweringTask(Task):
    """Trains an encoder to find answers in texts, or to choose among known answers."""

    Recipe = QuestionAnsweringRecipe
    metrics = (LOSS, EXACT_MATCH, F1)
    unit = "question"
    does = "answers questions"
    command = "clearhead answer --context FILE"
    recipe: QuestionAnsweringRecipe

    def prepare(self, context: RunContext) -> Iterator[Note]:
        data, recipe = self.recipe.data, self.recipe
        check_examples(data.paths)
        yield Note("reading the questions …")
        with track_progress(map(Path, data.train), context.progress):
            self.questions = Questions.read(data, recipe.model.head.kind, recipe.training.seed)
        self.holds_out = bool(self.questions.validation and not data.validation)
        self.data_fingerprint = [examples_hash(path) for path in [*data.train, *data.validation]]
        yield Note(self._about())
        if self.holds_out:
            held_out = self.questions.validation
            context.ranks.first(lambda: write_examples(context.out / VALIDATION, held_out))
        self.processor = context.processor(TextProcessor, self._make_processor)
        labels = f"; {counted(len(self.processor.labels), 'answer')}" if self.processor.labels else ""
        yield Note(f"tokenizer: {self.processor.size:,} tokens ({recipe.tokenizer.kind}){labels}")
        self.encoder = QuestionEncoder(self.processor, recipe.model, recipe.answers.stride)

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> QuestionBatches:
        return self._batches(self.questions.train, Share(rank, ranks, batches_per_step))

    def loss(self, model: Encoder, batch: QuestionBatch) -> Tensor:
        logits = read_out(model, batch)
        if self.encoder.finds_spans:
            return span_loss(logits, batch.contexts, batch.targets).sum()
        classes = batch.targets.long()
        return F.cross_entropy(logits.float(), classes, reduction="sum", ignore_index=IGNORE_INDEX)

    @torch.no_grad()
    def validate(self, model: Encoder, autocast: AbstractContextManager) -> dict[str, float]:
        questions = self.questions.validation
        if not questions:
            return {}
        model.eval()
        batches, device = self._validation, next(model.parameters()).device
        losses, rows = torch.zeros((), device=device), 0
        for plan in batches.sequential():
            batch = batches.build(0, plan).to(device)
            with autocast:
                losses += self.loss(model, batch)
            rows += batch.tokens
        found = find_answers(model, self.encoder, questions, self.recipe.answers, batches, autocast)
        scores = Scores.of(questions, [answer.text for answer in found])
        return {"loss": float(losses) / rows, "exact_match": scores.exact_match, "f1": scores.f1}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        parameters = parameter_count(model)
        how = (
            "A part of a text" if self.encoder.finds_spans else f"One of {len(self.encoder.labels):,} answers"
        )
        return card(
            title="Answers to questions about a text",
            about=f"{how} answers a question. Trained with clearhead: an encoder with {parameters:,} "
            f"parameters on {counted(len(self.questions.train), 'question')}; "
            f"{counted(step, 'training step')}.",
            use=[
                "clearhead answer 'A question?' --context FILE --model THIS-FOLDER",
                "clearhead evaluate THIS-FOLDER",
            ],
            data=[data_line(file) for file in self.recipe.data.train],
            held_out=f"`{VALIDATION}` was held out." if self.holds_out else "",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> QuestionAnsweringModel:
        return QuestionAnsweringModel.from_checkpoint(checkpoint)

    def _make_processor(self) -> TextProcessor:
        labels = () if self.recipe.model.head.kind == "span" else self.questions.labels
        inherited = tokenizer_of({INIT_FROM: self.recipe.training.init_from})
        if inherited is not None:
            return TextProcessor(inherited, labels)
        train = self.questions.train
        # Stories share their lines, each of which counts once.
        lines = dict.fromkeys(line for one in train for line in one.context.split("\n"))
        texts = (*lines, *(one.question for one in train))
        return TextProcessor(Tokenizer.train(texts, self.recipe.tokenizer), labels)

    def _batches(self, questions: Sequence[Question], share: Share) -> QuestionBatches:
        recipe, rows = self.recipe, self.encoder.rows(questions)
        return QuestionBatches(rows, recipe.batches, recipe.model.max_length, recipe.training.seed, share)

    @cached_property
    def _validation(self) -> QuestionBatches:
        return self._batches(self.questions.validation, SINGLE)

    def _about(self) -> str:
        found = self.questions
        without = sum(not question.answers for question in found.train)
        parts = [
            f"questions to train on: {len(found.train):,}, {len(found.validation):,} for validation",
            f"{without:,} of them without an answer" if without else "",
            reasons(found.left_out),
        ]
        return "; ".join(filter(None, parts))
