"""Text to ids and back: the one class between strings and models."""

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import tokenizers

from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.files import write_text
from clearhead.text import serialization as saved
from clearhead.text.dropout import MergeDropout
from clearhead.text.huggingface import read_foreign, write_foreign
from clearhead.text.kinds import END, PAD, SPECIALS, START, UNKNOWN, TokenizerConfig, byte_signs
from clearhead.text.normalize import normalize, without_surrogates
from clearhead.text.serialization import Signs
from clearhead.text.tiktoken import byte_level, read_ranks
from clearhead.text.training import learn

__all__ = ["END", "PAD", "SPECIALS", "START", "UNKNOWN", "Tokenizer", "TokenizerConfig"]

VISIBLE = str.maketrans({" ": "▁", "\n": "↵", "\t": "⇥"})


class Tokenizer:
    """Text <-> ids, immutable. Special tokens and tags have the first ids, and no text can produce them.

    A tokenizer made from a rank file has that file's ids and no special tokens; one that was made elsewhere
    has signs instead.
    """

    FILE = "tokenizer.json"
    """Its name in a model's folder."""

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        config: TokenizerConfig,
        specials: tuple[str, ...],
        signs: Signs | None = None,
    ):
        self.signs = signs or (Signs(size=0, start=START, end=END) if specials else Signs(size=0))
        """The ids before and after a text, where there are such; the size is 0 if the vocabulary is all."""
        self._foreign = signs is not None
        self.config = config
        self.specials = specials
        self._inner = inner
        _quiet_forks()

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig, tags: Sequence[str] = ()) -> Self:
        """Learns from texts, read one at a time; `tags` are further special tokens such as '<2de>'."""
        specials = (*SPECIALS, *tags)
        for tag in tags:
            if not (tag.startswith("<") and tag.endswith(">") and any(map(str.isalnum, tag))):
                raise SettingsError(f"tokenizer: tag {tag!r} is not of the form <2de>")
            if specials.count(tag) > 1:
                raise SettingsError(f"tokenizer: tag {tag} is given twice; name each tag once")
        _quiet_forks()
        learned = learn(texts, config, specials)
        return cls(saved.bare(json.loads(learned.to_str())), config, specials)

    @classmethod
    def from_ranks(cls, path: Path | str) -> Self:
        """The tokenizer of a tiktoken rank file such as cl100k_base.tiktoken, also as .xz or .gz."""
        ranks = read_ranks(Path(path))
        return cls(byte_level(ranks), TokenizerConfig(kind="bytes", vocabulary=len(ranks)), ())

    @classmethod
    def from_huggingface(cls, folder: Path | str, size: int) -> Self:
        """The tokenizer in a folder of Hugging Face, for a model with so many rows."""
        return cls(*read_foreign(Path(folder), size))

    def to_huggingface(self) -> dict[str, Any]:
        """The files, by name, with which Hugging Face's libraries cut text in the same way."""
        return write_foreign(self._inner, self.specials, self.signs)

    @classmethod
    def from_json(cls, text: str, place: str = "tokenizer") -> Self:
        """What `to_json` has given; `place` is named when something is wrong with it."""
        return cls(*saved.unpack(text, place))

    def to_json(self) -> str:
        return saved.pack(self._inner, self.config, self.specials, self.signs if self._foreign else None)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ModelError(f"{path}: no such file; name the folder of a trained model") from None
        except UnicodeDecodeError as error:
            raise ModelError(f"{path}: not UTF-8 text (byte {error.start}); copy the file again") from None
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
        return cls.from_json(text, place=str(path))

    def save(self, path: Path | str) -> None:
        """Writes all or nothing: an older file stays until the new one is whole."""
        write_text(Path(path), self.to_json())

    @functools.cached_property
    def size(self) -> int:
        """One more than the highest id, so that a model has a row for each."""
        return self.signs.size or max(self._ids.values()) + 1

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all that decides which ids a text gets."""
        content = json.dumps([self.specials, self._inner.to_str()])
        return hashlib.sha256(content.encode()).hexdigest()

    def normalized(self, text: str) -> str:
        """The text as it is spelled before it is cut, blanks as blanks."""
        clean, config = self._writable(text), self.config
        clean = normalize(clean) if config.normalizes else clean
        return clean.lower() if config.lowercase else clean

    def id(self, token: str) -> int | None:
        return self._ids.get(token)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with nothing added at its ends."""
        return self._inner.encode(self._writable(text), add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, on all cores."""
        encoded = self._inner.encode_batch_fast(list(map(self._writable, texts)), add_special_tokens=False)
        return [one.ids for one in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, without the special tokens."""
        first = len(self.specials)
        return self._inner.decode([number for number in ids if number >= first])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The token of each id as one can read it: blanks as ▁, bytes as text where they are text."""
        return [self._readable(number) for number in ids]

    def words(self, sentences: Sequence[Sequence[int]]) -> list[list[list[int]]]:
        """The ids of each sentence in groups of one word; signs and ids without a text are alone."""
        first = len(self.specials)
        texts = self._inner.decode_batch([[n for n in ids if n >= first] for ids in sentences])
        encoded = self._inner.encode_batch(texts, add_special_tokens=False)
        return [_grouped(ids, one.ids, one.word_ids) for ids, one in zip(sentences, encoded, strict=True)]

    def word_numbers(self, text: str) -> list[int]:
        """For each token of a text, the number of the word that it is a part of."""
        numbers = self._inner.encode(self._writable(text), add_special_tokens=False).word_ids
        order = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
        return [order[number] for number in numbers]

    def word_texts(self, text: str) -> list[str]:
        """The words of a text as they are spelled before they are cut, in the order of `word_numbers`."""
        clean = self._writable(text)
        encoded = self._inner.encode(clean, add_special_tokens=False)
        ends = dict(zip(encoded.word_ids, (last for _, last in encoded.offsets), strict=True)).values()
        return [self.normalized(clean[first:last]).strip() for first, last in pairwise([0, *ends])]

    def dropout(self, probability: float) -> MergeDropout:
        """The same merges, each of them left out with a probability."""
        if not 0 <= probability <= 1:
            raise SettingsError(f"tokenizer: dropout {probability} is not between 0 and 1")
        if self.config.kind not in ("bpe", "bytes"):
            raise SettingsError(
                f"tokenizer: kind {self.config.kind} has no merges to drop; use kind bpe or bytes"
            )
        merges = json.loads(self._inner.to_str())["model"]["merges"]
        return MergeDropout([tuple(pair) for pair in merges], self._ids, probability)

    def characters(self, ids: Sequence[int]) -> list[int] | None:
        """The ids of the single signs that a word's ids were merged from; None where that is not known."""
        if any(number < len(self.specials) for number in ids):
            return None
        signs = "".join(self._inner.id_to_token(number) or "" for number in ids)
        return [self._ids[sign] for sign in signs]

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return self._inner.get_vocab(with_added_tokens=self._foreign)

    def _writable(self, text: str) -> str:
        clean = without_surrogates(text)
        if clean != text and not self.config.normalizes:
            place = next(place for place, sign in enumerate(text) if "\ud800" <= sign <= "\udfff")
            raise TextError(
                f"character {place} of the text is half a character (U+{ord(text[place]):04X}); "
                "read the text as UTF-8, or use a tokenizer that normalizes"
            )
        return clean

    def _readable(self, number: int) -> str:
        token = self._inner.id_to_token(number)
        if token is None and 0 <= number < self.signs.size:
            return f"<{number}>"  # a row of the model that stands for nothing
        if token is None:
            raise TextError(f"id {number} is not in the vocabulary, which ends at {self.size - 1}")
        byte_of = _byte_of()
        if self.config.kind == "bytes" and number >= len(self.specials) and byte_of.keys() >= set(token):
            token = bytes(byte_of[sign] for sign in token).decode(errors="backslashreplace")
        return token.translate(VISIBLE)


def _grouped(ids: Sequence[int], encoded: list[int], numbers: Sequence[int | None]) -> list[list[int]]:
    """Ids by the numbers of their words; a tag before them is alone, and so is each id if they differ."""
    before = len(ids) - len(encoded)
    if before < 0 or list(ids[before:]) != encoded:
        return [[number] for number in ids]
    groups = [[number] for number in ids[:before]]
    last = None
    for number, word in zip(encoded, numbers, strict=True):
        if word != last:
            groups.append([])
        groups[-1].append(number)
        last = word
    return groups


@functools.cache
def _byte_of() -> dict[str, int]:
    return {sign: byte for byte, sign in enumerate(byte_signs())}


@functools.cache
def _quiet_forks() -> None:
    """Forked processes encode on one core, without the warning that tokenizers before 0.23 prints there."""
    name = "TOKENIZERS_PARALLELISM"
    chosen_here = False

    def before() -> None:
        nonlocal chosen_here
        chosen_here = name not in os.environ
        if chosen_here:
            os.environ[name] = "false"

    def after_in_parent() -> None:
        if chosen_here:
            del os.environ[name]

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after_in_parent)
