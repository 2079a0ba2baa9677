"""A small text in two languages, and a tokenizer of every kind trained on it."""

from collections.abc import Callable
from functools import cache

import pytest

from clearhead.text.languages import language_tag
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TAGS = (language_tag("en"), language_tag("de"))
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ0123456789"
PUNCTUATION = ".,;:!?'\"()-–„“«»%€$/<>=+*&#@_"
SENTENCES = [
    "I'm fine, thanks. How are you (really)?",
    "The quick brown fox jumps over the lazy dog; the dog sleeps on.",
    'He said: "It costs 3.50 € – that is 20% more!"',
    "Mir geht es gut, danke. Und wie geht es dir?",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "„Wo ist der Hund?“ fragte sie. – Der Hund ist im Garten/Hof.",
    "<p>Tags like </s>, <s>, <pad> and <2de> are only text.</p> " * 20,
    " ".join(LETTERS) + " " + "".join(LETTERS),
    " ".join(PUNCTUATION) + " " + PUNCTUATION,
] * 3


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    return Tokenizer.train(
        iter(SENTENCES), TokenizerConfig.model_validate({"kind": kind, "vocabulary": 600}), TAGS
    )


@pytest.fixture(params=["bpe", "unigram", "word", "whitespace", "character", "bytes"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return tokenizer_of(request.param)


@pytest.fixture
def of_kind() -> Callable[[str], Tokenizer]:
    return tokenizer_of
