"""The kinds of tokenizer: settings, and how each kind splits text, joins it again and is trained.

To add a kind, add its name to `KindName` and a row to `KINDS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tokenizers
from pydantic import Field, model_validator
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from clearhead.config import Settings
from clearhead.text.normalize import NORMALIZER

PAD, UNK, BOS, EOS = range(4)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
MASK = "<mask>"
"""The further special token of models that predict masked tokens; people write `[MASK]`."""
PLACEHOLDERS = tuple(f"<p{number}>" for number in range(8))
"""Further special tokens of translators, which copy them: each stands for a part that must not change."""
STAND_INS = tuple(map(chr, range(0xE000, 0xE000 + len(PLACEHOLDERS))))
"""The private-use character that stands for each placeholder in a text, see `Tokenizer.encode_protected`."""
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(0x100))
"""The tokens of byte fallback, as the tokenizers library and SentencePiece name them."""

SPACE = "▁"  # in a subword: a space was here
JOINER = "￭"  # at punctuation: no space was here
ESCAPE = "\ue008"  # before 0: itself; before 1: the character that marks spaces
# Punctuation is split off in most kinds, so no text can become a special token.
PUNCTUATION, OTHER = r"[\p{P}\p{S}]", r"[^\p{P}\p{S}]"
LETTERS = r"[^\p{P}\p{S}\s]"
# A pair of pieces seen only once teaches a model nothing about the longer piece.
MIN_MERGE_FREQUENCY = 2

KindName = Literal["bpe", "unigram", "wordpiece", "word", "whitespace", "character", "bytes"]


class TokenizerConfig(Settings):
    """How to train a tokenizer; `dropout` is for training a model, see `Tokenizer.dropout`.

    Kinds bpe, unigram, character and bytes lose nothing by default: decoding returns every text unchanged.
    Kinds word, whitespace and wordpiece lose something, and so do lowercase and normalize.
    """

    kind: KindName = "bpe"
    vocabulary: Annotated[int, Field(gt=len(SPECIAL_TOKENS))] = 8000
    lowercase: bool = False
    normalize: bool | None = None
    """NFC, single spaces, no invisible characters. Default: true unless the tokenizer is lossless."""
    byte_fallback: bool | None = None
    """Spells characters outside the alphabet in bytes, for which 256 tokens are reserved, instead of <unk>.
    Default: true for bpe, unigram and character, if the vocabulary is at least twice that size."""
    alphabet: Annotated[int, Field(gt=0)] | None = None
    """Maximum number of characters, the most frequent first. Default: all; with byte fallback, those that
    make up 99.99 % of the text, so that the bytes are trained too (kind unigram: all)."""
    dropout: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _check(self) -> "TokenizerConfig":
        kind = KINDS[self.kind]
        if self.dropout and not kind.has_merges:
            raise ValueError(
                f"dropout drops merges, which kind {self.kind} does not have; use kind {_with('has_merges')}"
            )
        if self.alphabet and not kind.limits_alphabet:
            raise ValueError(
                f"alphabet does not apply to kind {self.kind}; use kind {_with('limits_alphabet')}"
            )
        if self.byte_fallback and not kind.byte_fallback:
            raise ValueError(
                f"byte_fallback does not apply to kind {self.kind}; use kind {_with('byte_fallback')}"
            )
        if self.kind in ("word", "whitespace") and self.normalize is False:
            raise ValueError(
                f"normalize cannot be false with kind {self.kind}, which drops spaces; use kind bytes"
            )
        return self

    @property
    def falls_back(self) -> bool:
        """Whether characters outside the alphabet are spelled in bytes."""
        if self.byte_fallback is None:
            return KINDS[self.kind].byte_fallback and self.vocabulary >= 2 * len(BYTES)
        return self.byte_fallback

    @property
    def normalizes(self) -> bool:
        if self.normalize is None:
            return not KINDS[self.kind].byte_level and (self.lowercase or not self.falls_back)
        return self.normalize

    @property
    def lossless(self) -> bool:
        """Whether decoding returns every text unchanged."""
        return (KINDS[self.kind].byte_level or self.falls_back) and not (self.normalizes or self.lowercase)


Steps = list[normalizers.Normalizer]


@dataclass(frozen=True)
class Kind:
    """What distinguishes one kind of tokenizer from the others."""

    build: Callable[[Steps, bool], tokenizers.Tokenizer]
    """The untrained tokenizer that normalizes text by these steps first, with byte fallback or without."""
    trainer: Callable[[TokenizerConfig, list[str], list[str]], trainers.Trainer] | None
    """The trainer for settings, special tokens and alphabet; None if characters or words are counted."""
    has_merges: bool = False
    limits_alphabet: bool = False
    byte_level: bool = False
    byte_fallback: bool = False
    by_word: bool = False
    """Whether a word between spaces has the same ids wherever it is, so that one look-up is enough."""


def untrained(config: TokenizerConfig) -> tokenizers.Tokenizer:
    """A tokenizer of the library with every part but the vocabulary."""
    steps: Steps = [NORMALIZER] if config.normalizes else []
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    return KINDS[config.kind].build(steps, config.falls_back)


def _subwords(model: models.Model, steps: Steps, falls_back: bool) -> tokenizers.Tokenizer:
    """A space becomes part of the word it precedes (Kudo and Richardson 2018), so decoding is exact."""
    marks, space = {ESCAPE: f"{ESCAPE}0", SPACE: f"{ESCAPE}1"}, decoders.Replace(SPACE, " ")
    if falls_back:
        words = rf"{PUNCTUATION}|{LETTERS}+|\s+"
        unmarked = [decoders.Replace(written, one) for one, written in reversed(marks.items())]
        joins = [decoders.ByteFallback(), decoders.Fuse(), space, *unmarked]
    else:
        words, marks = f"{PUNCTUATION}|{OTHER}+", {SPACE: "_"}
        joins = [space, decoders.Fuse()]
    mark = [normalizers.Replace(one, written) for one, written in (*marks.items(), (" ", SPACE))]
    split = pre_tokenizers.Split(Regex(f"{SPACE}?(?:{words})"), "isolated")
    join = decoders.Sequence([*joins, decoders.Strip(" ", 1, 0)])
    return _tokenizer(model, [*steps, *mark, normalizers.Prepend(SPACE)], split, join)


def _characters(steps: Steps, falls_back: bool) -> tokenizers.Tokenizer:
    """Byte pair encoding without merges."""
    join = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()]) if falls_back else decoders.Fuse()
    return _tokenizer(_bpe(falls_back), steps, None, join)


def _bpe(falls_back: bool, fuse: bool = False) -> models.BPE:
    return models.BPE(unk_token=SPECIAL_TOKENS[UNK], fuse_unk=fuse, byte_fallback=falls_back)


def _words(steps: Steps, _: bool) -> tokenizers.Tokenizer:
    """Punctuation marks on which side it touches its neighbour: `fine ￭, thanks ￭.`"""
    touching = Regex(rf"(?<=\S)(?={PUNCTUATION})|(?<={PUNCTUATION})(?=\S)")
    mark = [normalizers.Replace(JOINER, "■"), normalizers.Replace(touching, JOINER)]
    punctuation = Regex(f"{JOINER}?{PUNCTUATION}(?:{JOINER}(?={OTHER}))?")
    splits = [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split(punctuation, "isolated")]
    return _word_level([*steps, *mark], pre_tokenizers.Sequence(splits), f" ?{JOINER} ?")


def _whitespace(steps: Steps, _: bool) -> tokenizers.Tokenizer:
    """Everything between two spaces is a word, for text that is tokenized already; `<unk>` stays unknown."""
    special = Regex(rf"(?<!\S)(?=<(?!{SPECIAL_TOKENS[UNK][1:]})[^\s<>]+>(?!\S))")
    mark = [normalizers.Replace(JOINER, "■"), normalizers.Replace(special, JOINER)]
    return _word_level([*steps, *mark], pre_tokenizers.Split(" ", "removed"), JOINER)


def _word_level(steps: Steps, split: pre_tokenizers.PreTokenizer, removed: str) -> tokenizers.Tokenizer:
    """A vocabulary of words, joined by spaces; decoding removes what matches the pattern."""
    joins = [
        decoders.Replace(Regex("^"), " "),
        decoders.Fuse(),
        decoders.Replace(Regex(removed), ""),
        decoders.Strip(" ", 1, 0),
    ]
    model = models.WordLevel(unk_token=SPECIAL_TOKENS[UNK])
    return _tokenizer(model, steps, split, decoders.Sequence(joins))


def _tokenizer(
    model: models.Model, steps: Steps, split: pre_tokenizers.PreTokenizer | None, join: decoders.Decoder
) -> tokenizers.Tokenizer:
    result = tokenizers.Tokenizer(model)
    if steps:
        result.normalizer = normalizers.Sequence(steps)
    if split:
        result.pre_tokenizer = split
    result.decoder = join
    return result


def _options(config: TokenizerConfig, special: list[str]) -> dict[str, Any]:
    return {"vocab_size": config.vocabulary, "special_tokens": special, "show_progress": False}


def _bpe_trainer(config: TokenizerConfig, special: list[str], alphabet: list[str]) -> trainers.Trainer:
    # The library breaks ties among rare characters at random, so the alphabet is chosen beforehand.
    trainer = trainers.BpeTrainer(
        min_frequency=MIN_MERGE_FREQUENCY, initial_alphabet=alphabet, **_options(config, special)
    )
    if alphabet and KINDS[config.kind].limits_alphabet:
        trainer.limit_alphabet = len(alphabet)
    return trainer


KINDS: dict[KindName, Kind] = {
    "bpe": Kind(
        lambda steps, falls_back: _subwords(_bpe(falls_back, fuse=True), steps, falls_back),
        _bpe_trainer,
        has_merges=True,
        limits_alphabet=True,
        byte_fallback=True,
    ),
    "unigram": Kind(
        lambda steps, falls_back: _subwords(models.Unigram(), steps, falls_back),
        lambda config, special, _: trainers.UnigramTrainer(
            unk_token=SPECIAL_TOKENS[UNK], **_options(config, special)
        ),
        byte_fallback=True,
    ),
    # The longest token that matches comes first (Wu et al. 2016).
    "wordpiece": Kind(
        lambda steps, falls_back: _subwords(
            models.WordPiece(unk_token=SPECIAL_TOKENS[UNK], continuing_subword_prefix=""), steps, falls_back
        ),
        lambda config, special, _: trainers.WordPieceTrainer(
            continuing_subword_prefix="", **_options(config, special)
        ),
    ),
    "word": Kind(_words, lambda config, special, _: trainers.WordLevelTrainer(**_options(config, special))),
    "whitespace": Kind(_whitespace, None, by_word=True),
    "character": Kind(_characters, None, limits_alphabet=True, byte_fallback=True),
    "bytes": Kind(
        lambda steps, _: _tokenizer(
            models.BPE(), steps, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        ),
        lambda config, special, _: _bpe_trainer(config, special, pre_tokenizers.ByteLevel.alphabet()),
        has_merges=True,
        byte_level=True,
    ),
}


def _with(trait: str) -> str:
    """The kinds that have a trait, for a message."""
    return " or ".join(name for name, kind in KINDS.items() if getattr(kind, trait))


def byte_characters() -> list[str]:
    """The visible character by which byte-level tokenizers write each byte: itself, or one from U+0100."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(others)) for byte in range(0x100)]
