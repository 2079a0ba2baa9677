"""The tokenizer: text to token ids and back."""

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import tokenizers

from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.files import write_text
from clearhead.text import serialization, training
from clearhead.text.dropout import MergeDropout
from clearhead.text.huggingface import huggingface_files, read_huggingface
from clearhead.text.kinds import (
    BOS,
    BYTES,
    EOS,
    KINDS,
    MASK,
    PAD,
    PLACEHOLDERS,
    SPECIAL_TOKENS,
    STAND_INS,
    UNK,
    TokenizerConfig,
    byte_characters,
)
from clearhead.text.normalize import normalize, without_surrogates
from clearhead.text.serialization import SpecialIds
from clearhead.text.tiktoken import byte_level, read_ranks

__all__ = ["BOS", "EOS", "MASK", "PAD", "SPECIAL_TOKENS", "UNK", "Tokenizer", "TokenizerConfig"]

VISIBLE = str.maketrans({" ": "▁", "\n": "↵", "\t": "⇥"})
SUBSCRIPTS = "₁₂₃₄"


class Tokenizer:
    """Text to ids and back; immutable. The processor of all text models.

    Special tokens and tags have the first ids, unless they were added later; no text can produce them. A
    tokenizer from a tiktoken file has no special tokens; an imported one has its own, at any ids.
    """

    FILE = "tokenizer.json"
    """Its file in a model's folder."""

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        config: TokenizerConfig,
        special_tokens: tuple[str, ...],
        imported: SpecialIds | None = None,
        added_tokens: tuple[str, ...] = (),
        target: tokenizers.Tokenizer | None = None,
    ):
        mask = special_tokens.index(MASK) if MASK in special_tokens else None
        own = SpecialIds(size=0, bos=BOS, eos=EOS, mask=mask) if special_tokens else SpecialIds(size=0)
        self._special, self.imported = imported or own, imported is not None
        self.bos_id, self.eos_id, self.adds_bos = self._special.bos, self._special.eos, self._special.adds_bos
        self.eos_ids = self._special.several_eos or (() if self.eos_id is None else (self.eos_id,))
        """All ids that end a text."""
        self.mask_id = self._special.mask
        self.config, self.special_tokens, self._inner = config, special_tokens, inner
        self.added_tokens = added_tokens
        """Special tokens that an extension added, with later ids."""
        self._target = target

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig, tags: Sequence[str] = ()) -> Self:
        """A tokenizer trained on a stream of texts; `tags` are further special tokens such as '<2de>'."""
        special_tokens = (*SPECIAL_TOKENS, *tags)
        for tag in tags:
            if not (tag.startswith("<") and tag.endswith(">") and any(map(str.isalnum, tag))):
                raise SettingsError(f"tokenizer: tag {tag!r} is not of the form <2de>")
            if special_tokens.count(tag) > 1:
                raise SettingsError(f"tokenizer: tag {tag} is given twice; name each tag once")
        if set(tags).intersection(PLACEHOLDERS) and not config.falls_back:
            raise SettingsError(
                "tokenizer: placeholders need byte_fallback, and a vocabulary with room for it"
            )
        config = config.model_copy(update={"byte_fallback": config.falls_back})
        description = json.loads(training.train(texts, config, special_tokens).to_str())
        if config.falls_back:
            description["model"]["byte_fallback"] = True  # the library's trainer of kind unigram resets it
        inner = serialization.library_tokenizer(description, "tokenizer")
        return cls(inner, config, special_tokens)

    @classmethod
    def from_tiktoken(cls, path: Path | str) -> Self:
        """The tokenizer of a tiktoken file such as cl100k_base.tiktoken, also as .xz or .gz."""
        ranks = read_ranks(Path(path))
        config = TokenizerConfig(kind="bytes", vocabulary=len(ranks), byte_fallback=False)
        return cls(byte_level(ranks), config, ())

    @classmethod
    def from_huggingface(cls, folder: Path | str, size: int) -> Self:
        """The tokenizer in a Hugging Face folder, for a model with embeddings for `size` ids."""
        return cls(*read_huggingface(Path(folder), size))

    def to_huggingface(self, token_types: int | None = None) -> dict[str, Any]:
        """The files, by name, with which Hugging Face's libraries tokenize in the same way.

        With a number of token types, for an encoder, whose texts are as `with_special_tokens` returns them.
        """
        names = (*self.special_tokens, *self.added_tokens)
        special = {name: number for name in names if (number := self.id(name)) is not None}
        return huggingface_files(self._inner, special, self._special, token_types)

    @classmethod
    def from_json(cls, text: str, path: str = "tokenizer") -> Self:
        """The tokenizer that `to_json` was called on; error messages name `path`."""
        return cls(*serialization.loads(text, path))

    def to_json(self) -> str:
        imported = self._special if self.imported else None
        return serialization.dumps(
            self._inner, self.config, self.special_tokens, imported, self.added_tokens, self._target
        )

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
        return cls.from_json(text, str(path))

    def save(self, path: Path | str) -> None:
        """Writes the file atomically: an older one stays until the new one is complete."""
        write_text(Path(path), self.to_json())

    @functools.cached_property
    def for_targets(self) -> "Tokenizer":
        """The tokenizer of target texts: itself, unless the two sides split text differently, as Marian's do.

        Both have the same ids.
        """
        if self._target is None:
            return self
        imported = self._special if self.imported else None
        return Tokenizer(self._target, self.config, self.special_tokens, imported, self.added_tokens)

    @functools.cached_property
    def size(self) -> int:
        """The number of embeddings a model needs: one more than the highest id."""
        return self._special.size or max(self._ids.values()) + 1

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that determines the ids of a text."""
        added = [self.added_tokens] if self.added_tokens else []
        target = [self._target.to_str()] if self._target else []
        content = json.dumps([self.special_tokens, self._inner.to_str(), *added, *target])
        return hashlib.sha256(content.encode()).hexdigest()

    def normalized(self, text: str) -> str:
        """The text after normalization, before it is split into tokens."""
        clean, config = self._checked(text), self.config
        clean = normalize(clean) if config.normalizes else clean
        return clean.lower() if config.lowercase else clean

    def id(self, token: str) -> int | None:
        return self._ids.get(token)

    def special_id(self, token: str) -> int | None:
        """The id of a special token; None if it is none."""
        return self.id(token) if token in (*self.special_tokens, *self.added_tokens) else None

    @functools.cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of our special tokens; an imported tokenizer has its own."""
        return frozenset([*range(len(self.special_tokens)), *(self._ids[one] for one in self.added_tokens)])

    def vocabulary(self) -> dict[str, int]:
        """The id of every token."""
        return dict(self._ids)

    def library_json(self) -> str:
        """The description of the tokenizers library."""
        return self._inner.to_str()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        return self._inner.encode(self._checked(text), add_special_tokens=False).ids

    def encode_protected(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts in which the characters STAND_INS stand for the placeholders <p0>, <p1> and so on.

        Each becomes its special token; the text beside it is split as it is beside a letter.
        """
        return [self._collapsed(ids) for ids in self.encode_batch(texts)]

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids of a text as encoders read it: with an end token, and a start token where one is added."""
        start, end = [self.bos_id] if self.adds_bos else [], [self.eos_id]
        return [number for number in (*start, *ids, *end) if number is not None]

    def encode_spans(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """The ids of a text, each with the characters that it stands for."""
        encoded = self._inner.encode(self._checked(text), add_special_tokens=False)
        return list(zip(encoded.ids, encoded.offsets, strict=True))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, on all cores."""
        if KINDS[self.config.kind].by_word:
            known: dict[str, list[int]] = {}
            return [
                [
                    number
                    for word in text.split()
                    for number in known.get(word) or known.setdefault(word, self.encode(word))
                ]
                for text in texts
            ]
        encoded = self._inner.encode_batch_fast(list(map(self._checked, texts)), add_special_tokens=False)
        return [one.ids for one in encoded]

    def encodings(self, texts: Sequence[str]) -> list[tokenizers.Encoding]:
        """The library's encodings of texts: ids, the characters and the word of each token."""
        return self._inner.encode_batch(list(map(self._checked, texts)), add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, without special tokens; U+FFFD stands for bytes that form no character."""
        special = self.special_ids
        return self._inner.decode(self._repaired([number for number in ids if number not in special]))

    def decode_protected(self, ids: Sequence[int]) -> str:
        """The text of the ids with the characters STAND_INS in place of placeholders."""
        return self.decode(self._expanded(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The tokens of a text in readable form: spaces as ▁, bytes as text where they form text.

        The bytes of one character are shown as that character with their numbers: é₁ é₂.
        """
        pieces = list(map(self.piece, ids))
        for start, end, character in self._spelled(ids):
            shown = character.translate(VISIBLE)
            pieces[start:end] = (
                [shown + part for part in SUBSCRIPTS[: end - start]] if end - start > 1 else [shown]
            )
        return pieces

    def words(self, sentences: Sequence[Sequence[int]]) -> list[list[list[int]]]:
        """The ids of each sentence grouped by word; special tokens are groups of one."""
        special = self.special_ids
        expanded = [self._expanded(ids) for ids in sentences]
        texts = self._inner.decode_batch([[n for n in ids if n not in special] for ids in expanded])
        encoded = self._inner.encode_batch(texts, add_special_tokens=False)
        grouped = [_grouped(ids, one.ids, one.word_ids) for ids, one in zip(expanded, encoded, strict=True)]
        return [[self._collapsed(word) for word in words] for words in grouped]

    def words_of(self, ids: Sequence[int]) -> list[list[int]]:
        """Ids grouped by word, even if encoding their text gives other ids, as for a text that was cut off.

        Words are those of the encoding as far as both agree. After that a word begins with a space, and
        punctuation is a word.
        """
        special = self.special_ids
        (grouped,) = self.words([ids])
        if len(grouped) < len(ids):
            return grouped
        text = self._inner.decode([number for number in ids if number not in special])
        encoded = self._inner.encode(text, add_special_tokens=False)
        again, numbers = encoded.ids, encoded.word_ids
        groups: list[list[int]] = []
        agrees = True
        for position, number in enumerate(ids):
            agrees = agrees and again[position : position + 1] == [number]
            if position == 0:
                new = True
            elif agrees:
                new = numbers[position] != numbers[position - 1]
            else:
                last = ids[position - 1]
                new = last in special or number in special or self._begins_word(last, number)
            if new:
                groups.append([])
            groups[-1].append(number)
        return groups

    def _begins_word(self, last: int, number: int) -> bool:
        """Whether a token begins a word after another: with a space, or where punctuation begins or ends."""
        before, piece = self.piece(last).lstrip("▁ "), self.piece(number)
        return piece.startswith(("▁", " ")) or (bool(before) and before[-1].isalnum() != piece[:1].isalnum())

    def split_words(self, text: str) -> list[str]:
        """The words of a text before they are split into tokens, in the form that tokens have."""
        inner = self._inner
        clean = inner.normalizer.normalize_str(text) if inner.normalizer else text
        split = inner.pre_tokenizer
        return [word for word, _ in split.pre_tokenize_str(clean)] if split else [clean]

    def word_numbers(self, text: str) -> list[int]:
        """For each token of a text, the number of the word it belongs to."""
        numbers = self._inner.encode(self._checked(text), add_special_tokens=False).word_ids
        order = {number: index for index, number in enumerate(dict.fromkeys(numbers))}
        return [order[number] for number in numbers]

    def word_texts(self, text: str) -> list[str]:
        """The normalized words of a text, in the order of `word_numbers`."""
        clean = self._checked(text)
        encoded = self._inner.encode(clean, add_special_tokens=False)
        ends = dict(zip(encoded.word_ids, (last for _, last in encoded.offsets), strict=True)).values()
        return [self.normalized(clean[first:last]).strip() for first, last in pairwise([0, *ends])]

    def dropout(self, probability: float) -> MergeDropout:
        """BPE dropout: the same merges, each skipped with a probability."""
        if not 0 <= probability <= 1:
            raise SettingsError(f"tokenizer: dropout {probability} is not between 0 and 1")
        if not KINDS[self.config.kind].has_merges:
            raise SettingsError(
                f"tokenizer: kind {self.config.kind} has no merges to drop; use kind bpe or bytes"
            )
        merges = json.loads(self._inner.to_str())["model"]["merges"]
        return MergeDropout([tuple(pair) for pair in merges], self._ids, probability)

    def characters(self, ids: Sequence[int]) -> list[int] | None:
        """The ids of the characters that a word's ids were merged from; None for special tokens."""
        if not self.special_ids.isdisjoint(ids):
            return None
        found: list[int] = []
        for number in ids:
            token = self._inner.id_to_token(number) or ""
            found += [number] if number in self._byte_tokens else [self._ids[one] for one in token]
        return found

    @functools.cached_property
    def unk_id(self) -> int | None:
        """The id of unknown words or characters."""
        unknown = getattr(self._inner.model, "unk_token", None)
        return UNK if self.special_tokens else self.id(unknown) if unknown else None

    @functools.cached_property
    def placeholder_ids(self) -> tuple[int, ...]:
        """The ids of the placeholders that the tokenizer has; none in tokenizers without byte fallback."""
        return tuple(self._ids[token] for token in PLACEHOLDERS if self.special_id(token) is not None)

    @functools.cached_property
    def _byte_tokens(self) -> dict[int, int]:
        """The byte that each token of byte fallback stands for, by id."""
        if not self.config.falls_back:
            return {}
        return {self._ids[token]: byte for byte, token in enumerate(BYTES) if token in self._ids}

    @functools.cached_property
    def _stand_ins(self) -> dict[tuple[int, ...], int]:
        """The id of each placeholder, by the ids of its stand-in."""
        spelled = (tuple(self._ids[BYTES[byte]] for byte in one.encode()) for one in STAND_INS)
        return dict(zip(spelled, self.placeholder_ids, strict=False)) if self.placeholder_ids else {}

    def _collapsed(self, ids: list[int]) -> list[int]:
        """The ids with placeholders in place of their stand-ins."""
        first = next(iter(self._stand_ins), (None,))[0]
        if first not in ids:
            return ids
        found, index = list[int](), 0
        while index < len(ids):
            spelled = tuple(ids[index : index + 3])
            found.append(self._stand_ins.get(spelled, ids[index]))
            index += 3 if spelled in self._stand_ins else 1
        return found

    def _expanded(self, ids: Sequence[int]) -> Sequence[int]:
        """The ids with stand-ins in place of placeholders."""
        if not set(ids).intersection(self.placeholder_ids):
            return ids
        spelled = {number: ids for ids, number in self._stand_ins.items()}
        return [one for number in ids for one in spelled.get(number, (number,))]

    def _repaired(self, ids: list[int]) -> list[int]:
        """The ids with the bytes of U+FFFD in place of each byte that is not part of a character.

        The library would give up every character of the run of bytes that it stands in.
        """
        if self._byte_tokens.keys().isdisjoint(ids):
            return ids
        whole = {index for start, end, _ in self._spelled(ids) for index in range(start, end)}
        replacement = [self._ids[BYTES[byte]] for byte in "\ufffd".encode()]
        return [
            one
            for index, number in enumerate(ids)
            for one in ([number] if number not in self._byte_tokens or index in whole else replacement)
        ]

    def _spelled(self, ids: Sequence[int]) -> Iterator[tuple[int, int, str]]:
        """The characters that are spelled in bytes: where each starts and ends among the ids."""
        if self._byte_tokens.keys().isdisjoint(ids):
            return
        run = [self._byte_tokens.get(number, -1) for number in ids]
        start = 0
        while start < len(run):
            length = _utf8_length(run[start])
            part = run[start : start + length]
            try:
                character = bytes(part).decode()
            except ValueError:  # not a byte, or bytes that form no character
                start += 1
                continue
            yield start, start + length, character
            start += length

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return self._inner.get_vocab(with_added_tokens=self.imported)

    def _checked(self, text: str) -> str:
        clean = without_surrogates(text)
        if clean != text and not self.config.normalizes:
            index = next(i for i, character in enumerate(text) if "\ud800" <= character <= "\udfff")
            raise TextError(
                f"character {index} of the text is half a character (U+{ord(text[index]):04X}); "
                "read the text as UTF-8, or use a tokenizer that normalizes"
            )
        return clean

    def piece(self, number: int) -> str:
        """A token in readable form, whatever is beside it."""
        token = self._inner.id_to_token(number)
        if token is None and 0 <= number < self._special.size:
            return f"<{number}>"  # an embedding without a token
        if token is None:
            raise TextError(f"id {number} is not in the vocabulary, which ends at {self.size - 1}")
        if number in self._byte_tokens:
            token = bytes([self._byte_tokens[number]]).decode(errors="backslashreplace")
        byte_of = _byte_of()
        is_bytes = KINDS[self.config.kind].byte_level and number not in self.special_ids
        if is_bytes and byte_of.keys() >= set(token):
            token = bytes(byte_of[character] for character in token).decode(errors="backslashreplace")
        return token.translate(VISIBLE)


def _grouped(ids: Sequence[int], encoded: list[int], numbers: Sequence[int | None]) -> list[list[int]]:
    """Ids grouped by word; each id alone if encoding the text again gives other ids."""
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


def _utf8_length(byte: int) -> int:
    """The number of bytes of a character in UTF-8, by its first byte."""
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4


@functools.cache
def _byte_of() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_characters())}
