"""Word vectors in the formats of word2vec: a line "words width", then each word with its numbers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.checkpoint import CARD, load_checkpoint, save_checkpoint
from clearhead.data.sources.streams import compression, open_file, suffix
from clearhead.errors import ModelError
from clearhead.files import atomic_path, check_new_folder, write_text
from clearhead.models.word_vectors import WordVectors, WordVectorsConfig
from clearhead.text.vocabulary import Vocabulary

SUFFIXES = (".bin", ".txt", ".vec")
"""Of binary files, and of text files."""
MAX_HEADER, MAX_WORD = 100, 10_000
READ_SIZE = 1 << 24
CARD_TEXT = """# {name}

{words:,} word vectors of width {width}, imported from {file}. The licence of the original vectors applies.

    clearhead neighbours {word} --model {name}
"""

Vectors = NDArray[np.float32]
Entry = tuple[str, Vectors]


def import_vectors(path: Path, out: Path) -> WordVectors:
    """Convert a word2vec file to a model folder; return the model."""
    check_new_folder(out)
    words, matrix = read_vectors(path)
    config = WordVectorsConfig(width=matrix.shape[1], contexts=False)
    # Not sampled: every row is overwritten.
    model = WordVectors(config, 0)
    model.embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(matrix))
    vocabulary = Vocabulary(words, lower=all(word == word.lower() for word in words))
    settings = {"kind": "word_vectors", "origin": {"library": "word2vec", "file": path.name}}
    save_checkpoint(out, model, vocabulary, settings)
    about = {"name": out.name, "words": len(words), "width": config.width, "file": path.name}
    write_text(out / CARD, CARD_TEXT.format(**about, word=words[0]))
    return model


def export_vectors(folder: Path, out: Path) -> tuple[int, int]:
    """Write the vectors of a model folder to a .bin, .txt or .vec file; return their number and width."""
    checkpoint = load_checkpoint(folder)
    if not isinstance(checkpoint.model, WordVectors):
        raise ModelError(f"{folder}: holds no word vectors; only those can be exported to word2vec")
    if out.exists():
        raise ModelError(f"{out}: already exists; choose another name")
    matrix = checkpoint.model.embedding.weight.numpy()
    write_vectors(out, checkpoint.processor.words, matrix)
    return matrix.shape


def read_vectors(path: Path) -> tuple[list[str], Vectors]:
    """The words and vectors of a file, which may be compressed; its suffix tells text from binary."""
    read = _reader(path)
    with open_file(path) as stream:
        count, width = _header(path, stream)
        _check_size(path, count, width)
        rows, numbers = [], {}
        for number, (word, row) in enumerate(read(path, stream, count, width), start=1):
            if word in numbers:
                raise ModelError(
                    f"{path}, vector {number}: {word!r} is also vector {numbers[word]}; remove one"
                )
            if not np.isfinite(row).all():
                wrong = row[~np.isfinite(row)][0]
                raise ModelError(
                    f"{path}, vector {number} ({word!r}): {wrong} is not a finite number; remove the vector, "
                    "or copy the file again"
                )
            numbers[word] = number
            rows.append(row)
    return list(numbers), np.stack(rows)


def write_vectors(path: Path, words: list[str], matrix: Vectors) -> None:
    """Writes a file atomically; its suffix tells text from binary."""
    _reader(path)
    if compression(path):
        raise ModelError(f"{path}: is written uncompressed; leave out {compression(path)}")
    for word in words:
        if not word or any(map(str.isspace, word)):
            raise ModelError(f"{word!r}: a word with white space cannot be written to a word2vec file")
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write(f"{len(words)} {matrix.shape[1]}\n".encode())
        for word, row in zip(words, matrix.astype("<f4", copy=False), strict=True):
            if suffix(path) == ".bin":
                stream.write(word.encode() + b" " + row.tobytes() + b"\n")
            else:
                # The shortest decimals that are read back as the same floats.
                stream.write(f"{word} {' '.join(map(str, row))}\n".encode())


def _reader(path: Path) -> Callable[[Path, BinaryIO, int, int], Iterator[Entry]]:
    if suffix(path) not in SUFFIXES:
        raise ModelError(f"{path}: unknown suffix; use .bin for binary, .txt or .vec for text")
    return _binary_entries if suffix(path) == ".bin" else _text_entries


def _header(path: Path, stream: BinaryIO) -> tuple[int, int]:
    line = stream.readline(MAX_HEADER)
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        shown = line[:40].decode(errors="replace").strip()
        raise ModelError(
            f"{path}, line 1: {shown!r} is not the number of words and the width, such as '3000 100'; "
            "add this line (GloVe files lack it), or copy the file again"
        )
    return int(parts[0]), int(parts[1])


def _check_size(path: Path, count: int, width: int) -> None:
    """Refuses a header that promises more than the file can hold, before anything is read."""
    least = count * ((4 * width if suffix(path) == ".bin" else 2 * width) + 1)
    size = path.stat().st_size
    if not compression(path) and size < least:
        raise ModelError(
            f"{path}: {count:,} vectors of width {width:,} need at least {least:,} bytes, but the file has "
            f"{size:,}; it was cut short, or line 1 is wrong; copy it again"
        )


def _text_entries(path: Path, stream: BinaryIO, count: int, width: int) -> Iterator[Entry]:
    found = 0
    for line in stream:
        if not line.strip():
            continue
        found += 1
        where = f"{path}, line {found + 1}"
        if found > count:
            raise ModelError(f"{where}: a vector more than the {count:,} of line 1; correct that line")
        if not line.endswith(b"\n"):
            raise ModelError(
                f"{where}: has no line feed at its end; it was cut short, or lacks only that; copy the file "
                "again, or add it"
            )
        word, *numbers = line.rstrip(b" \r\n").split(b" ")
        if len(numbers) != width:
            raise ModelError(
                f"{where}: {len(numbers):,} numbers where line 1 says {width:,}; copy the file again"
            )
        try:
            yield word.decode(), np.array(numbers, dtype=np.float32)
        except ValueError as error:
            raise ModelError(f"{where}: not a word and its numbers ({error}); copy the file again") from None
    if found < count:
        raise _cut_short(path, found, count)


def _binary_entries(path: Path, stream: BinaryIO, count: int, width: int) -> Iterator[Entry]:
    buffer, size, start = b"", 4 * width, 0
    for number in range(count):
        if len(buffer) - start < MAX_WORD + size:
            buffer, start = buffer[start:] + stream.read(READ_SIZE), 0
        end = buffer.find(b" ", start, start + MAX_WORD)
        numbers = buffer[end + 1 : end + 1 + size]
        if len(numbers) < size and len(buffer) - start < MAX_WORD + size:
            raise _cut_short(path, number, count)
        try:
            if end < 0:
                raise ValueError("no blank after the word")
            # The authors' program ends each vector with a line feed; others do not.
            word = buffer[start:end].removeprefix(b"\n").decode()
        except ValueError as error:
            raise ModelError(
                f"{path}, vector {number + 1}: not a word and its numbers ({error}); "
                "is it a text file? then rename it to .txt"
            ) from None
        yield word, np.frombuffer(numbers, dtype="<f4")
        start = end + 1 + size
    if (buffer[start:] + stream.read(MAX_WORD)).strip(b"\n"):
        raise ModelError(f"{path}: holds more than the {count:,} vectors of line 1; copy it again")


def _cut_short(path: Path, found: int, count: int) -> ModelError:
    return ModelError(f"{path}: cut short after {found:,} of {count:,} vectors; copy it again")
