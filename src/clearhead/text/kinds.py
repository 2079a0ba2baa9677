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

SPACE = "▁"  # in a subword: a space was here
JOINER = "￭"  # at punctuation: no space was here
# Punctuation is split off in most kinds, so no text can become a special token.
PUNCTUATION, OTHER = r"[\p{P}\p{S}]", r"[^\p{P}\p{S}]"
# A pair of pieces seen only once teaches a model nothing about the longer piece.
MIN_MERGE_FREQUENCY = 2

KindName = Literal["bpe", "unigram", "wordpiece", "word", "whitespace", "character", "bytes"]


class TokenizerConfig(Settings):
    """How to train a tokenizer; `dropout` is for training a model, see `Tokenizer.dropout`."""

    kind: KindName = "bpe"
    vocabulary: Annotated[int, Field(gt=len(SPECIAL_TOKENS))] = 8000
    lowercase: bool = False
    normalize: bool | None = None
    """Default: true, except for bytes, which keep every text unchanged."""
    alphabet: Annotated[int, Field(gt=0)] | None = None
    """Maximum number of characters, the most frequent first; others become <unk>. Default: all."""
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
        if self.kind in ("word", "whitespace") and self.normalize is False:
            raise ValueError(
                f"normalize cannot be false with kind {self.kind}, which drops spaces; use kind bytes"
            )
        return self

    @property
    def normalizes(self) -> bool:
        return KINDS[self.kind].normalizes if self.normalize is None else self.normalize


Steps = list[normalizers.Normalizer]


@dataclass(frozen=True)
class Kind:
    """What distinguishes one kind of tokenizer from the others."""

    build: Callable[[Steps], tokenizers.Tokenizer]
    """The untrained tokenizer that normalizes text by these steps first."""
    trainer: Callable[[TokenizerConfig, list[str], list[str]], trainers.Trainer] | None
    """The trainer for settings, special tokens and alphabet; None if characters or words are counted."""
    has_merges: bool = False
    limits_alphabet: bool = False
    byte_level: bool = False
    by_word: bool = False
    """Whether a word between spaces has the same ids wherever it is, so that one look-up is enough."""
    normalizes: bool = True


def untrained(config: TokenizerConfig) -> tokenizers.Tokenizer:
    """A tokenizer of the library with every part but the vocabulary."""
    steps: Steps = [NORMALIZER] if config.normalizes else []
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    return KINDS[config.kind].build(steps)


def _subwords(model: models.Model, steps: Steps) -> tokenizers.Tokenizer:
    """A space becomes part of the word it precedes (Kudo and Richardson 2018), so decoding is exact."""
    mark = [normalizers.Replace(SPACE, "_"), normalizers.Replace(" ", SPACE), normalizers.Prepend(SPACE)]
    split = pre_tokenizers.Split(Regex(f"{SPACE}?(?:{PUNCTUATION}|{OTHER}+)"), "isolated")
    join = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return _tokenizer(model, [*steps, *mark], split, join)


def _words(steps: Steps) -> tokenizers.Tokenizer:
    """Punctuation marks on which side it touches its neighbour: `fine ￭, thanks ￭.`"""
    touching = Regex(rf"(?<=\S)(?={PUNCTUATION})|(?<={PUNCTUATION})(?=\S)")
    mark = [normalizers.Replace(JOINER, "■"), normalizers.Replace(touching, JOINER)]
    punctuation = Regex(f"{JOINER}?{PUNCTUATION}(?:{JOINER}(?={OTHER}))?")
    splits = [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split(punctuation, "isolated")]
    return _word_level([*steps, *mark], pre_tokenizers.Sequence(splits), f" ?{JOINER} ?")


def _whitespace(steps: Steps) -> tokenizers.Tokenizer:
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
    if config.alphabet and alphabet:
        trainer.limit_alphabet = len(alphabet)
    return trainer


KINDS: dict[KindName, Kind] = {
    "bpe": Kind(
        lambda steps: _subwords(models.BPE(unk_token=SPECIAL_TOKENS[UNK], fuse_unk=True), steps),
        _bpe_trainer,
        has_merges=True,
        limits_alphabet=True,
    ),
    "unigram": Kind(
        lambda steps: _subwords(models.Unigram(), steps),
        lambda config, special, _: trainers.UnigramTrainer(
            unk_token=SPECIAL_TOKENS[UNK], **_options(config, special)
        ),
    ),
    # The longest token that matches comes first (Wu et al. 2016).
    "wordpiece": Kind(
        lambda steps: _subwords(
            models.WordPiece(unk_token=SPECIAL_TOKENS[UNK], continuing_subword_prefix=""), steps
        ),
        lambda config, special, _: trainers.WordPieceTrainer(
            continuing_subword_prefix="", **_options(config, special)
        ),
    ),
    "word": Kind(_words, lambda config, special, _: trainers.WordLevelTrainer(**_options(config, special))),
    "whitespace": Kind(_whitespace, None, by_word=True),
    # Byte pair encoding without merges.
    "character": Kind(
        lambda steps: _tokenizer(models.BPE(unk_token=SPECIAL_TOKENS[UNK]), steps, None, decoders.Fuse()),
        None,
        limits_alphabet=True,
    ),
    "bytes": Kind(
        lambda steps: _tokenizer(
            models.BPE(), steps, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        ),
        lambda config, special, _: _bpe_trainer(config, special, pre_tokenizers.ByteLevel.alphabet()),
        has_merges=True,
        byte_level=True,
        normalizes=False,
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
