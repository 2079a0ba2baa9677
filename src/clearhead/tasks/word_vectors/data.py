"""Training text as ids of words: reading, counting, and leaving out rare words."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.data.datasets import SHIPPED, is_shipped, shipped_file
from clearhead.data.sources.documents import (
    TABLES,
    check_tables,
    check_texts,
    files,
    read_column,
    read_documents,
)
from clearhead.data.sources.plain_text import TextChunk
from clearhead.data.sources.streams import suffix
from clearhead.data.store import TokenSequences
from clearhead.errors import DataError
from clearhead.tasks.word_vectors.recipe import WordsConfig
from clearhead.text.vocabulary import Vocabulary, split_words


@dataclass(frozen=True)
class WordCorpus:
    """A text as ids in a vocabulary, one sequence per line."""

    text: TokenSequences
    vocabulary: Vocabulary
    words: int
    """Words of the text, with the rare ones that were left out."""
    distinct: int
    """Distinct words of the text, with the rare ones."""

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.array(self.vocabulary.counts, dtype=np.int64)

    @property
    def fingerprint(self) -> str:
        """Equal for the same words in the same lines."""
        content = hashlib.sha256(self.vocabulary.fingerprint.encode())
        content.update(self.text.ids.tobytes())
        content.update(self.text.offsets.tobytes())
        return content.hexdigest()


def check_sources(data: WordsConfig) -> None:
    """Raises DataError for missing and unusable files, before any long work."""
    named = [path for path in data.train if not is_shipped(path, SHIPPED)]
    check_texts(named)
    check_tables(named, data.field)


def source_files(data: WordsConfig) -> list[Path]:
    """The files behind the paths."""
    shipped = {path: [shipped_file(path)] for path in data.train if is_shipped(path, SHIPPED)}
    return [file for path in data.train for file in (shipped.get(path) or files(path))]


def read_words(data: WordsConfig) -> WordCorpus:
    """Reads the text once; the most frequent word gets the first id."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    parts, lengths = [], [0]
    for words, ends in _lines(data):
        parts.append(np.fromiter(map(numbers.__getitem__, words), np.int32, len(words)))
        lengths[-1] += len(words)
        if ends:
            lengths.append(0)
    ids = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    if not len(ids):
        raise DataError(f"{' and '.join(data.train)}: no words in it; a word is made of letters")
    counts = np.bincount(ids)
    # Of equally frequent words, the one that occurs first comes first.
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= data.min_count]
    _check_enough(data, counts, len(order))
    names = list(numbers)
    vocabulary = Vocabulary([names[one] for one in order], counts[order].tolist(), data.lower)
    new = np.full(len(counts), -1, dtype=np.int32)
    new[order] = np.arange(len(order), dtype=np.int32)
    ids = new[ids]
    kept = np.concatenate([[0], np.cumsum(ids >= 0)])
    offsets = np.unique(kept[np.cumsum([0, *lengths])])
    return WordCorpus(
        TokenSequences(ids[ids >= 0].astype(np.uint32), offsets), vocabulary, len(ids), len(counts)
    )


def _check_enough(data: WordsConfig, counts: NDArray[np.int64], kept: int) -> None:
    """Raises DataError unless there are two words to tell apart."""
    where = " and ".join(data.train)
    if len(counts) == 1:
        raise DataError(f"{where}: holds one word, {counts[0]:,} times; vectors need different words")
    if kept < 2:
        most = int(counts.max())
        raise DataError(
            f"{where}: fewer than two words occur {data.min_count} times (the most frequent {most:,} times); "
            "give more text, or lower it: --set data.min_count=1"
        )


def _lines(data: WordsConfig) -> Iterator[tuple[list[str], bool]]:
    """The words of each line, or of a part of a long one, and whether the line ends there."""
    for chunk in _chunks(data):
        *lines, rest = chunk.text.split("\n")
        for line in lines:
            yield split_words(line, data.lower), True
        yield split_words(rest, data.lower), chunk.last


def _chunks(data: WordsConfig) -> Iterator[TextChunk]:
    for path in data.train:
        if is_shipped(path, SHIPPED):
            yield from read_column(shipped_file(path), data.field or 0)
            continue
        for file in files(path):
            if suffix(file) in TABLES:
                yield from read_column(file, data.field or 0)
            else:
                yield from read_documents([file], None if data.field is None else str(data.field))
