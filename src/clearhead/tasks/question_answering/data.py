"""Questions about texts: reading, checking, splitting, and batches of them."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.data.batch import TensorBatch
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.batching.plan import SINGLE, PlannedBatches, Share
from clearhead.data.sources.questions import Question, read_questions
from clearhead.errors import DataError
from clearhead.models import Encoder
from clearhead.tasks.question_answering.encoding import Numbers, QuestionRows, question_first
from clearhead.tasks.question_answering.recipe import QuestionHoldOut, QuestionsConfig
from clearhead.tasks.question_answering.spans import occurrences
from clearhead.text.tokenizer import PAD
from clearhead.wording import counted

# With fewer articles, one of them would be too large a part to hold out.
MIN_ARTICLES = 20
# The largest share of the questions that one text may be to be held out where the share set is smaller.
MAX_SHARE = 0.2


@dataclass(frozen=True)
class Questions:
    """The questions of a recipe in two parts, and what was left out."""

    train: list[Question]
    validation: list[Question]
    left_out: Counter[str]
    """The number of questions by the reason."""

    @classmethod
    def read(cls, config: QuestionsConfig, head: str, seed: int) -> "Questions":
        """Reads and splits the files; raises DataError where nothing can be learned from them."""
        found, left_out = usable(config.train, head)
        if config.validation:
            validation, more = usable(config.validation, head)
            return cls(found, validation, left_out + more)
        train, validation = split(found, config.hold_out, seed)
        if not train:
            raise DataError(
                f"{' and '.join(config.train)}: no question is left to train on after validation; add texts, "
                "or set data.hold_out.share to 0"
            )
        return cls(train, validation, left_out)

    @property
    def labels(self) -> tuple[str, ...]:
        """The distinct answers to train on, in order."""
        return tuple(sorted({question.answers[0] for question in self.train}))


def usable(files: Sequence[str], head: str) -> tuple[list[Question], Counter[str]]:
    """The questions of files that a model with this head can learn, and the number of others by reason."""
    kept, left_out = [], Counter[str]()
    for question in (question for file in files for question in read_questions(file)):
        reason = _unusable(question, head)
        if reason:
            left_out[reason] += 1
        else:
            kept.append(question)
    if not kept:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise DataError(
            f"{' and '.join(files)}: no question to use ({reasons or 'none at all'}); fix the file, or name "
            "another"
        )
    return kept, left_out


def split(
    questions: Sequence[Question], hold: QuestionHoldOut, seed: int
) -> tuple[list[Question], list[Question]]:
    """Holds out whole articles or stories, or whole texts of few articles, up to a number of questions.

    Of few questions, the smallest text is held out, even if that is more than the share.
    """
    by_article = len({question.group for question in questions}) >= MIN_ARTICLES
    names = [question.group if by_article else question.context for question in questions]
    sizes, limit = Counter(names), min(hold.share * len(questions), hold.most)
    held, total = set[str](), 0
    for name in sorted(sizes, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest()):
        if total + sizes[name] <= limit:
            held.add(name)
            total += sizes[name]
    if not held and limit:
        smallest = min(sizes, key=lambda name: sizes[name])
        if sizes[smallest] <= min(MAX_SHARE * len(questions), hold.most):
            held.add(smallest)
    train = [question for question, name in zip(questions, names, strict=True) if name not in held]
    return train, [question for question, name in zip(questions, names, strict=True) if name in held]


def reasons(left_out: Counter[str]) -> str:
    """What was left out, in words."""
    return "; ".join(
        f"left out {counted(number, 'question')} {reason}" for reason, number in left_out.items()
    )


@dataclass(frozen=True)
class QuestionBatch(TensorBatch):
    """One question, or window of a long text, per row; empty rows fill the batch and have no target."""

    static_shape = True
    ids: Int[Tensor, "batch positions"]
    types: Int[Tensor, "batch positions"]
    lengths: Int[Tensor, " batch"]
    contexts: Int[Tensor, " batch"]
    owned: Int[Tensor, "batch 2"]
    targets: Int[Tensor, "batch ..."]

    @property
    def question_first_positions(self) -> Int[Tensor, "batch positions"]:
        """The position that each token has in <s> question </s> text </s>."""
        index = torch.arange(self.ids.shape[1], device=self.ids.device)
        text, last = self.contexts[:, None], self.lengths[:, None] - 1
        question = last - 2 - text
        moved = torch.where(index <= text, index + question + 1, index - text - 1)
        moved = torch.where(index == text + 1, last, moved)
        inside = (index > 0) & (index <= last)
        return torch.where(inside, moved, index).clamp_min(0)

    def count_tokens(self) -> int:
        return max(1, int((self.targets.view(len(self), -1)[:, 0] >= 0).sum()))

    def padding_share(self) -> float:
        return 1 - int(self.lengths.sum()) / self.ids.numel()


def read_out(model: Encoder, batch: QuestionBatch) -> Tensor:
    """What the head of a model reads out of the rows of a batch."""
    positions = batch.question_first_positions if question_first(model.config) else None
    return model(batch.ids, batch.lengths, batch.types, positions)


Plan = tuple[int, Numbers]
"""The length of a batch and the numbers of its rows."""


class QuestionBatches(PlannedBatches[Plan, QuestionBatch]):
    """Batches of rows of similar length; every row comes once per epoch.

    Lengths are `row_length` times a power of two, and batches are filled up, so that few shapes occur.
    """

    def __init__(
        self,
        rows: QuestionRows,
        config: BatchingConfig,
        max_length: int,
        seed: int = 0,
        share: Share = SINGLE,
    ):
        super().__init__(seed, share)
        self.rows, self.tokens = rows, config.tokens
        lengths = [min(config.row_length, max_length)]
        while lengths[-1] < max_length:
            lengths.append(min(2 * lengths[-1], max_length))
        shortest = np.searchsorted(lengths, rows.tokens.lengths)
        self.buckets = {
            length: np.flatnonzero(shortest == number)
            for number, length in enumerate(lengths)
            if (shortest == number).any()
        }

    def plan(self, epoch: int) -> list[Plan]:
        random, step = self.random(epoch), self.share.batches_per_step
        plans = [
            (length, part)
            for length, rows in self.buckets.items()
            for part in self._cut(random.permutation(rows), length)
        ]
        if len(plans) < step:
            raise DataError(
                f"{counted(len(self.rows.tokens), 'question')} cannot fill the {counted(step, 'batch')} of "
                "a step; use fewer ranks, a lower training.accumulate or more questions"
            )
        return [plans[index] for index in random.permutation(len(plans))[: len(plans) - len(plans) % step]]

    def sequential(self) -> list[Plan]:
        """All rows once, in order within their length."""
        return [(length, part) for length, rows in self.buckets.items() for part in self._cut(rows, length)]

    def build(self, epoch: int, plan: Plan) -> QuestionBatch:
        length, numbers = plan
        rows, height = self.rows, self._height(length)
        lengths = np.ones(height, dtype=np.int32)
        lengths[: len(numbers)] = rows.tokens.lengths[numbers]
        inside = np.arange(length) < lengths[: len(numbers), None]
        ids, types = (
            np.full((height, length), PAD, dtype=np.int32),
            np.zeros((height, length), dtype=np.int32),
        )
        ids[: len(numbers)][inside] = rows.tokens.gather(numbers).ids
        types[: len(numbers)][inside] = rows.types.gather(numbers).ids
        contexts, owned = np.zeros(height, dtype=np.int32), np.zeros((height, 2), dtype=np.int32)
        contexts[: len(numbers)], owned[: len(numbers)] = rows.contexts[numbers], rows.owned[numbers]
        targets = np.full((height, *rows.targets.shape[1:]), -1, dtype=np.int32)
        targets[: len(numbers)] = rows.targets[numbers]
        return QuestionBatch(*map(torch.from_numpy, (ids, types, lengths, contexts, owned, targets)))

    def _height(self, length: int) -> int:
        return max(1, self.tokens // length)

    def _cut(self, rows: Numbers, length: int) -> list[Numbers]:
        height = self._height(length)
        return np.split(rows, range(height, len(rows), height))


def _unusable(question: Question, head: str) -> str:
    """Why a question cannot be learned; empty if it can."""
    if not question.question.strip():
        return "without words"
    if not question.context.strip():
        return "about an empty context"
    if head == "classifier" and not question.answers:
        return "without an answer"
    if head == "span" and question.answers and not occurrences(question.context, *question[2:4]):
        return "whose answer is not in its context"
    return ""
