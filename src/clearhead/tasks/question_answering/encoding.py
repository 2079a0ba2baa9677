"""Questions and texts as rows of tokens: what a text has in common with a question, windows, targets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from clearhead.data.sources.questions import Question
from clearhead.data.store import TokenSequences
from clearhead.errors import ModelError
from clearhead.models import EncoderConfig
from clearhead.tasks.question_answering.spans import occurrences
from clearhead.text.processor import TextProcessor

# An answer that occurs more often says little about where it is meant.
MAX_OCCURRENCES = 16
# Endings that a word may lose in a question: "invaded" and "invades" match.
ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|ly|e|s)$")
# Special tokens of a row: <s> text </s> question </s>.
SPECIALS = 3
# Token types. A pre-trained encoder knows only type 0, so that is what most tokens of a text have.
QUESTION, OCCURS, CAPITAL, BOTH = range(1, 5)
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EncodedText:
    """A text as tokens that know their characters and their words."""

    text: str
    table: Numbers
    """(5, tokens): id, first character, one past the last, stem of the word, whether that has a capital."""

    @property
    def ids(self) -> Numbers:
        return self.table[0]

    @property
    def starts(self) -> Numbers:
        return self.table[1]

    @property
    def ends(self) -> Numbers:
        return self.table[2]

    @property
    def stems(self) -> Numbers:
        """The number of the stem of each token's word; -1 for punctuation."""
        return self.table[3]

    @property
    def capitals(self) -> Numbers:
        """1 where the word of a token begins with a capital, else 0."""
        return self.table[4]

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


def question_first(config: EncoderConfig) -> bool:
    """Whether questions have lower positions than texts."""
    return getattr(config.head, "order", "") == "question_first"


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

    def texts(self, texts: Sequence[str]) -> list[EncodedText]:
        """The tokens of texts. Lines, which stories share, are encoded one by one; breaks are no tokens."""
        lines = list(dict.fromkeys(line for text in texts for line in text.split("\n")))
        tables = map(self._table, lines, self.tokenizer.encodings(lines))
        by_line = dict(zip(lines, tables, strict=True))
        return [EncodedText(text, _joined(text, by_line)) for text in texts]

    def rows(self, questions: Sequence[Question]) -> QuestionRows:
        """The rows of questions, in their order."""
        distinct = list(dict.fromkeys(question.context for question in questions))
        contexts = dict(zip(distinct, self.texts(distinct), strict=True))
        query = self.texts([question.question for question in questions])
        rows = [
            row
            for number, question in enumerate(questions)
            for row in self._rows(number, question, contexts[question.context], query[number])
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

    def _rows(
        self, number: int, question: Question, context: EncodedText, query: EncodedText
    ) -> Iterator[tuple[Any, ...]]:
        """(ids, types, text length, question, first token, owned positions, target) of each window."""
        limit, (bos, eos) = self.config.max_length, self._ends
        question_ids = query.ids[: limit // 2]
        room = limit - SPECIALS - len(question_ids)
        types = self._types(context, query)
        spans = [context.tokens(*span) for span in occurrences(*question[:1], *question[2:4])]
        for first, begin, end in self._windows(len(context.ids), room):
            last = min(first + room, len(context.ids))
            tokens = last - first
            ids = np.full(tokens + len(question_ids) + SPECIALS, eos, dtype=np.uint32)
            ids[0], ids[1 : tokens + 1], ids[tokens + 2 : -1] = bos, context.ids[first:last], question_ids
            row_types = np.zeros(len(ids), dtype=np.uint8)
            if question_first(self.config):
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

    def _types(self, context: EncodedText, query: EncodedText) -> NDArray[np.uint8]:
        # A table is far faster than np.isin; its last entry is that of punctuation.
        occurs = np.zeros(len(self._stems) + 1, dtype=bool)
        occurs[query.stems] = True
        occurs[-1] = False
        return self._marks[occurs[context.stems].astype(int), context.capitals]

    def _table(self, line: str, encoding: Encoding) -> Numbers:
        """The table of an encoded line."""
        if not encoding.ids:
            return np.zeros((5, 0), dtype=np.int64)
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        # The library counts a joiner before punctuation to the character before it.
        np.maximum(offsets[1:, 0], offsets[:-1, 1], out=offsets[1:, 0])
        words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
        firsts = np.flatnonzero(np.diff(words, prepend=-2))
        lasts = np.append(firsts[1:], len(words))
        known = [
            self._word(line[a:b]) for a, b in zip(offsets[firsts, 0], offsets[lasts - 1, 1], strict=True)
        ]
        marks = np.array(known, dtype=np.int64).reshape(-1, 2).repeat(lasts - firsts, 0)
        return np.vstack([np.array(encoding.ids, dtype=np.int64), offsets.T, marks.T])

    def _word(self, word: str) -> tuple[int, bool]:
        """The number of a word's stem, and whether it begins with a capital."""
        found = self._words.get(word)
        if found is None:
            bare = word.strip()
            stem = ENDING.sub("", bare.lower())
            number = self._stems.setdefault(stem, len(self._stems)) if any(map(str.isalnum, stem)) else -1
            found = self._words[word] = (number, bare[:1].isupper())
        return found


def _joined(text: str, tables: Mapping[str, Numbers]) -> Numbers:
    """The table of a text of several lines."""
    if "\n" not in text:
        return tables[text]
    lines, start, parts = text.split("\n"), 0, []
    for line in lines:
        part = tables[line].copy()
        part[1:3] += start
        start += len(line) + 1
        parts.append(part)
    return np.concatenate(parts, 1)
