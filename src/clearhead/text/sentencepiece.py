"""SentencePiece models (Kudo and Richardson 2018): reads their files, and makes tokenizers of them."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from clearhead.errors import ModelError
from clearhead.text.kinds import UNK

# Fields of the file, a protocol buffer (sentencepiece_model.proto).
PIECE, TRAINER, NORMALIZER = 1, 2, 3
TEXT, SCORE, TYPE = 1, 2, 3
MODEL_TYPE, UNIGRAM = 3, 1
CHARACTERS = 2
# Types of pieces that occur in text.
NORMAL, USER_DEFINED = 1, 4
# Lowers the score of a piece that a side does not have, so that it is used only instead of <unk>.
ABSENT = -1000.0


@dataclass(frozen=True)
class SentencePiece:
    """A unigram model: the score of each piece, and the map that normalizes characters."""

    scores: Mapping[str, float]
    characters: bytes


def read_sentencepiece(path: Path) -> SentencePiece:
    """The model in a file such as source.spm."""
    try:
        fields = list(_fields(path.read_bytes()))
        pieces = [dict(_fields(_bytes(value))) for number, value in fields if number == PIECE]
        trainer, normalizer = (
            dict(_fields(b"".join(_bytes(value) for number, value in fields if number == part)))
            for part in (TRAINER, NORMALIZER)
        )
        scores = {
            _bytes(piece[TEXT]).decode(): struct.unpack("<f", _bytes(piece.get(SCORE, bytes(4))))[0]
            for piece in pieces
            if piece.get(TYPE, NORMAL) in (NORMAL, USER_DEFINED)
        }
        characters = _bytes(normalizer.get(CHARACTERS, b""))
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file; copy the folder again") from None
    except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
        raise ModelError(f"{path}: cut short or not a SentencePiece model ({error}); copy it again") from None
    if not scores:
        raise ModelError(f"{path}: has no pieces, so it is not a SentencePiece model; copy it again")
    if trainer.get(MODEL_TYPE, UNIGRAM) != UNIGRAM:
        raise ModelError(f"{path}: not a unigram model, the only type of SentencePiece that is supported")
    return SentencePiece(scores, characters)


def unigram_tokenizer(model: SentencePiece, vocabulary: Sequence[str]) -> tokenizers.Tokenizer:
    """A tokenizer that splits text like the model, with the ids of this vocabulary.

    It uses pieces that only the vocabulary has where the model would read <unk>.
    """
    lowest = min(model.scores.values()) + ABSENT
    scored = [(piece, model.scores.get(piece, lowest)) for piece in vocabulary]
    inner = tokenizers.Tokenizer(models.Unigram(scored, UNK, byte_fallback=False))
    steps = [normalizers.Precompiled(model.characters)] if model.characters else []
    inner.normalizer = normalizers.Sequence(
        [*steps, normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    )
    # No text becomes a special token: what looks like one is split.
    tags = pre_tokenizers.Split(Regex(r"<(?=/?\w+>)"), "isolated")
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), tags])
    inner.decoder = decoders.Metaspace()
    return inner


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of the fields of a protocol buffer."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        size = {1: 8, 5: 4}.get(wire_type)
        if wire_type == 2:
            size, position = _varint(data, position)
        if size is None or position + size > len(data):
            raise ValueError(f"wrong field at byte {position}")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """An integer in groups of 7 bits, and the position after it."""
    value = shift = 0
    while data[position] & 0x80:
        value |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return value | data[position] << shift, position + 1


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where text is expected")
    return value
