"""The five kinds of tokenizer: their settings, and how each cuts text and puts it together again."""

from typing import Annotated, Literal

import tokenizers
from pydantic import Field, model_validator
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from clearhead.config import Settings
from clearhead.text.normalize import NORMALIZER

PAD, UNKNOWN, START, END = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")

BLANK = "▁"  # in a subword: here was a blank
JOINER = "￭"  # in a sign between words: here was no blank
# Signs stand alone, in every kind but characters, so no text can grow into a special token.
SIGN, OTHER = r"[\p{P}\p{S}]", r"[^\p{P}\p{S}]"


class TokenizerConfig(Settings):
    """What to learn from the texts; `dropout` is for training a model, see `Tokenizer.dropout`."""

    kind: Literal["bpe", "unigram", "word", "character", "bytes"] = "bpe"
    vocabulary: Annotated[int, Field(gt=len(SPECIALS))] = 8000
    lowercase: bool = False
    normalize: bool | None = None
    """Left out: yes, except for bytes, which keep every text as it is."""
    alphabet: Annotated[int, Field(gt=0)] | None = None
    """The most characters to know, frequent ones first; others become <unk>. Left out: all that occur."""
    dropout: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _agrees(self) -> "TokenizerConfig":
        if self.dropout and self.kind not in ("bpe", "bytes"):
            raise ValueError(
                f"dropout drops merges, which kind {self.kind} does not have; use kind bpe or bytes"
            )
        if self.alphabet and self.kind not in ("bpe", "character"):
            raise ValueError(f"alphabet cannot limit kind {self.kind}; use kind bpe or character")
        if self.kind == "word" and self.normalize is False:
            raise ValueError(
                "normalize cannot be false with kind word, which keeps no spaces; use kind bytes"
            )
        return self

    @property
    def normalizes(self) -> bool:
        return self.kind != "bytes" if self.normalize is None else self.normalize


def untrained(config: TokenizerConfig) -> tokenizers.Tokenizer:
    """The library's tokenizer with every part in place but the vocabulary."""
    steps: list[normalizers.Normalizer] = []
    if config.normalizes:
        steps.append(NORMALIZER)
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    unknown = SPECIALS[UNKNOWN]
    match config.kind:
        case "bpe":
            return _subwords(models.BPE(unk_token=unknown, fuse_unk=True), steps)
        case "unigram":
            return _subwords(models.Unigram(), steps)
        case "word":
            return _words(models.WordLevel(unk_token=unknown), steps)
        case "character":
            # Pairs are never merged, so what remains of byte pair encoding is its alphabet.
            return _tokenizer(models.BPE(unk_token=unknown), steps, None, decoders.Fuse())
        case "bytes":
            cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
            return _tokenizer(models.BPE(), steps, cut, decoders.ByteLevel())


def _subwords(
    model: models.BPE | models.Unigram, steps: list[normalizers.Normalizer]
) -> tokenizers.Tokenizer:
    """Blanks become part of the word they precede (Kudo and Richardson 2018), so joining is exact."""
    mark = [normalizers.Replace(BLANK, "_"), normalizers.Replace(" ", BLANK), normalizers.Prepend(BLANK)]
    cut = pre_tokenizers.Split(Regex(f"{BLANK}?(?:{SIGN}|{OTHER}+)"), "isolated")
    join = decoders.Sequence([decoders.Replace(BLANK, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return _tokenizer(model, [*steps, *mark], cut, join)


def _words(model: models.WordLevel, steps: list[normalizers.Normalizer]) -> tokenizers.Tokenizer:
    """Words stay bare, and a sign says on which side it touches its neighbour: `fine ￭, thanks ￭.`"""
    touching = Regex(rf"(?<=\S)(?={SIGN})|(?<={SIGN})(?=\S)")
    mark = [normalizers.Replace(JOINER, "■"), normalizers.Replace(touching, JOINER)]
    sign = Regex(f"{JOINER}?{SIGN}(?:{JOINER}(?={OTHER}))?")
    cut = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split(sign, "isolated")]
    )
    join = decoders.Sequence(
        [
            decoders.Replace(Regex("^"), " "),
            decoders.Fuse(),
            decoders.Replace(Regex(f" ?{JOINER} ?"), ""),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _tokenizer(model, [*steps, *mark], cut, join)


def _tokenizer(
    model: models.Model,
    steps: list[normalizers.Normalizer],
    cut: pre_tokenizers.PreTokenizer | None,
    join: decoders.Decoder,
) -> tokenizers.Tokenizer:
    result = tokenizers.Tokenizer(model)
    if steps:
        result.normalizer = normalizers.Sequence(steps)
    if cut:
        result.pre_tokenizer = cut
    result.decoder = join
    return result


def byte_signs() -> list[str]:
    """The visible character by which the library writes each byte: itself, or one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(others)) for byte in range(0x100)]
