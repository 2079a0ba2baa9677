"""Questions about texts: reading, checking, splitting, and batches of them."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import TensorBatch
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.batching.plan import SINGLE, PlannedBatches, Share
from clearhead.data.sources.questions import Question, read_questions
from clearhead.data.store import TokenSequences
from clearhead.errors import DataError, ModelError
from clearhead.models import Encoder, EncoderConfig
from clearhead.tasks.question_answering.recipe import QuestionHoldOut, QuestionsConfig
from clearhead.tasks.question_answering.spans import occurrences
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import PAD

# An answer that occurs more often says little about where it is meant.
MAX_OCCURRENCES = 16
# Endings that a word may lose in a question: "invaded" and "invades" match.
ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|ly|e|s)$")
# With fewer articles, one of them would be too large a part to hold out.
MIN_ARTICLES = 20
# Special tokens of a row: <s> text </s> question </s>.
SPECIALS = 3
# Token types. A pre-trained encoder knows only type 0, so that is what most tokens of a text have.
QUESTION, OCCURS, CAPITAL, BOTH = range(1, 5)
Numbers = NDArray[np.int64]


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
    """Holds out whole articles or stories, or whole texts of few articles, up to a number of questions."""
    by_article = len({question.group for question in questions}) >= MIN_ARTICLES
    names = [question.group if by_article else question.context for question in questions]
    sizes, limit = Counter(names), min(hold.share * len(questions), hold.most)
    held, total = set[str](), 0
    for name in sorted(sizes, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest()):
        if total + sizes[name] <= limit:
            held.add(name)
            total += sizes[name]
    train = [question for question, name in zip(questions, names, strict=True) if name not in held]
    return train, [question for question, name in zip(questions, names, strict=True) if name in held]


def count(questions: int) -> str:
    """A number of questions in words."""
    return f"{questions:,} question{'' if questions == 1 else 's'}"


def reasons(left_out: Counter[str]) -> str:
    """What was left out, in words."""
    return "; ".join(f"left out {count(number)} {reason}" for reason, number in left_out.items())


@dataclass(frozen=True, eq=False)
class EncodedText:
    """A text as tokens that know their characters and their words."""

    text: str
    ids: NDArray[np.int32]
    starts: Numbers
    """The first character of each token."""
    ends: Numbers
    """One past the last character of each token."""
    stems: Numbers
    """The number of the stem of each token's word; -1 for punctuation."""
    capitals: NDArray[np.bool_]
    """Whether the word of each token begins with a capital."""

    def tokens(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last token of a span of characters."""
        start = int(np.searchsorted(self.ends, first, side="right"))
        return start, max(start, int(np.searchsorted(self.starts, last)) - 1)

    def characters(self, start: int, end: int) -> tuple[int, int]:
        """The span of characters from a token to another, without spaces around it."""
        first, last = int(self.starts[start]), int(self.ends[end])
        whole = self.text[first:last]
        return first + len(whole) - len(whole.lstrip()), last - len(whole) + len(whole.rstrip())

    def lines(self) -> Numbers:
        """The number of the line of each token."""
        breaks = np.flatnonzero(np.array([character == "\n" for character in self.text], dtype=bool))
        return np.searchsorted(breaks, self.ends, side="left")


@dataclass(frozen=True, eq=False)
class QuestionRows:
    """Rows of tokens, <s> text </s> question </s>: one per question, or per window of a long text."""

    tokens: TokenSequences
    types: TokenSequences
    """0 for texts and special tokens, 1 for questions, and from 2 on for marked tokens of texts."""
    contexts: NDArray[np.int32]
    """The tokens of each row's text, which begins at position 1."""
    questions: Numbers
    """The number of each row's question."""
    first: Numbers
    """The number of the first token of each row's text in the whole text."""
    owned: NDArray[np.int32]
    """The positions (first, one past the last) whose spans count in this row: windows overlap."""
    targets: NDArray[np.int32]
    """Spans in row positions (rows, occurrences, 2), or classes (rows,)."""


class QuestionEncoder:
    """Turns questions and texts into rows.

    The text comes before the question: so the last facts of a story are near the question, however long the
    story is. Token types mark which words of a text occur in the question, as in DrQA (Chen et al. 2017):
    with 2 types, none; with 3, those that occur; with 5, also those that begin with a capital. A model whose
    head says question_first reads the same rows with the positions and types that BERT gives to its tokens.
    """

    def __init__(self, processor: TextProcessor, config: EncoderConfig, stride: int):
        self.tokenizer, self.labels = processor.tokenizer, processor.labels
        self.config, self.stride = config, stride
        bos, eos = self.tokenizer.bos_id, self.tokenizer.eos_id
        if bos is None or eos is None:
            raise ModelError(
                "tokenizer: has no tokens for the start and the end of a text; use another model"
            )
        self._ends = bos, eos
        occurs, capital, both = OCCURS, CAPITAL, BOTH
        if config.token_types < BOTH + 1:
            capital, both = 0, OCCURS
        if config.token_types < OCCURS + 1:
            occurs = both = 0
        # By whether a word occurs in the question, and whether it begins with a capital.
        self._marks = np.array([[0, capital], [occurs, both]], dtype=np.uint8)
        self._stems: dict[str, int] = {}
        self._words: dict[str, tuple[int, bool]] = {}

    @property
    def finds_spans(self) -> bool:
        return self.config.head.kind == "span"

    @property
    def question_first(self) -> bool:
        return question_first(self.config)

    def texts(self, texts: Sequence[str]) -> list[EncodedText]:
        """The tokens of texts."""
        return [
            self._text(text, one) for text, one in zip(texts, self.tokenizer.encodings(texts), strict=True)
        ]

    def rows(self, questions: Sequence[Question]) -> QuestionRows:
        """The rows of questions, in their order."""
        distinct = list(dict.fromkeys(question.context for question in questions))
        contexts = dict(zip(distinct, self.texts(distinct), strict=True))
        asked = self.texts([question.question for question in questions])
        rows = [
            row
            for number, question in enumerate(questions)
            for row in self._rows(number, question, contexts[question.context], asked[number])
        ]
        ids, types, lengths, numbers, first, owned, targets = zip(*rows, strict=True)
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in ids], out=offsets[1:])
        return QuestionRows(
            TokenSequences(np.concatenate(ids), offsets),
            TokenSequences(np.concatenate(types), offsets),
            np.array(lengths, dtype=np.int32),
            np.array(numbers, dtype=np.int64),
            np.array(first, dtype=np.int64),
            np.array(owned, dtype=np.int32),
            np.array(targets, dtype=np.int32),
        )

    def _rows(self, number: int, question: Question, context: EncodedText, asked: EncodedText):
        """(ids, types, text length, question, first token, owned positions, target) of each window."""
        limit, (bos, eos) = self.config.max_length, self._ends
        question_ids = asked.ids[: limit // 2]
        room = limit - SPECIALS - len(question_ids)
        types = self._types(context, asked)
        spans = [context.tokens(*span) for span in occurrences(*question[:1], *question[2:4])]
        for first, begin, end in self._windows(len(context.ids), room):
            last = min(first + room, len(context.ids))
            tokens = last - first
            ids = np.full(tokens + len(question_ids) + SPECIALS, eos, dtype=np.uint32)
            ids[0], ids[1 : tokens + 1], ids[tokens + 2 : -1] = bos, context.ids[first:last], question_ids
            row_types = np.zeros(len(ids), dtype=np.uint8)
            if self.question_first:
                row_types[1 : tokens + 2] = max(1, self.config.token_types) - 1
            else:
                row_types[1 : tokens + 1], row_types[tokens + 2 : -1] = types[first:last], QUESTION
            inside = [(one - first + 1, two - first + 1) for one, two in spans if first <= one and two < last]
            target = self._target(question, inside)
            owned = (begin - first + 1, end - first + 1)
            yield ids, row_types, tokens, number, first, owned, target

    def _windows(self, tokens: int, room: int) -> list[tuple[int, int, int]]:
        """Each window's first token, and the tokens whose spans belong to it: those with the most context."""
        if not self.finds_spans:
            first = max(0, tokens - room)
            return [(first, first, tokens)]
        last = max(0, tokens - room)
        starts = [*range(0, last, min(self.stride, room)), last]
        middles = [(later + start + room) // 2 for start, later in pairwise(starts)]
        return list(zip(starts, [0, *middles], [*middles, tokens], strict=True))

    def _target(self, question: Question, spans: list[tuple[int, int]]) -> int | list[tuple[int, int]]:
        if not self.finds_spans:
            answer = question.answers[0] if question.answers else ""
            return self._classes.get(answer, -1)
        found = spans[:MAX_OCCURRENCES] or [(0, 0)]
        return found + [(-1, -1)] * (MAX_OCCURRENCES - len(found))

    @cached_property
    def _classes(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def _types(self, context: EncodedText, asked: EncodedText) -> NDArray[np.uint8]:
        # A table is far faster than np.isin; its last entry is that of punctuation.
        occurs = np.zeros(len(self._stems) + 1, dtype=bool)
        occurs[asked.stems] = True
        occurs[-1] = False
        return self._marks[occurs[context.stems].astype(int), context.capitals.astype(int)]

    def _text(self, text: str, encoding) -> EncodedText:
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
        firsts = np.flatnonzero(np.diff(words, prepend=-2))
        lasts = np.append(firsts[1:], len(words))
        known = [
            self._word(text[a:b]) for a, b in zip(offsets[firsts, 0], offsets[lasts - 1, 1], strict=True)
        ]
        stems, capitals = np.array(known, dtype=np.int64).reshape(-1, 2).repeat(lasts - firsts, 0).T
        ids = np.array(encoding.ids, dtype=np.int32)
        return EncodedText(text, ids, offsets[:, 0], offsets[:, 1], stems, capitals.astype(bool))

    def _word(self, word: str) -> tuple[int, bool]:
        """The number of a word's stem, and whether it begins with a capital."""
        found = self._words.get(word)
        if found is None:
            bare = word.strip()
            stem = ENDING.sub("", bare.lower())
            number = self._stems.setdefault(stem, len(self._stems)) if any(map(str.isalnum, stem)) else -1
            found = self._words[word] = (number, bare[:1].isupper())
        return found


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


def question_first(config: EncoderConfig) -> bool:
    """Whether questions have lower positions than texts."""
    return getattr(config.head, "order", "") == "question_first"


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
                f"{count(len(self.rows.tokens))} are too few for the {step} batches of a step; use fewer "
                "ranks, a lower training.accumulate or more questions"
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
