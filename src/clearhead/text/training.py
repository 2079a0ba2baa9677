"""Trains a vocabulary on a stream of texts, in memory that grows with distinct words only."""

import json
import re
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import tokenizers
from tokenizers import models

from clearhead.errors import DataError, SettingsError
from clearhead.text.kinds import BYTES, KINDS, SPECIAL_TOKENS, STAND_INS, UNK, TokenizerConfig, untrained
from clearhead.text.normalize import without_surrogates

# Rarer characters are spelled in bytes, where there is byte fallback.
COVERAGE = 0.9999
STAND_IN = re.compile(f"[{''.join(STAND_INS)}]")


def train(texts: Iterable[str], config: TokenizerConfig, special: Sequence[str]) -> tokenizers.Tokenizer:
    """A tokenizer of the library: the special tokens first, then bytes, then the vocabulary of the texts.

    The same texts give the same tokenizer, except for kind unigram: the library's trainer adds up scores in
    an order that changes from run to run, so some ids may differ.
    """
    tokenizer, kind = untrained(config), KINDS[config.kind]
    reserved = [*special, *(BYTES if config.falls_back else ())]
    if kind.by_word:
        words = [*reserved, *_words(_nonempty(texts), tokenizer)][: config.vocabulary]
        vocabulary = {word: number for number, word in enumerate(words)}
        tokenizer.model = models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNK])
    elif kind.trainer is None:
        alphabet = _alphabet(_nonempty(texts), tokenizer, config)
        vocabulary = {token: number for number, token in enumerate([*reserved, *alphabet])}
        tokenizer.model = models.BPE(
            vocab=vocabulary, merges=[], unk_token=SPECIAL_TOKENS[UNK], byte_fallback=config.falls_back
        )
    elif config.alphabet or (config.falls_back and kind.limits_alphabet):
        with _repeatable(texts) as read:
            alphabet = _alphabet(_nonempty(read()), tokenizer, config)
            _train(tokenizer, _nonempty(read()), config, reserved, alphabet)
    else:
        _train(tokenizer, _nonempty(texts), config, reserved)
    size = tokenizer.get_vocab_size()
    if size == len(reserved):
        raise _no_text()
    if size > config.vocabulary:
        fixed = f"{len(special)} special tokens" + (f" and {len(BYTES)} bytes" if config.falls_back else "")
        join = ", " if config.falls_back else " and "
        raise _too_small(config, f"{size - len(reserved)} characters of the text{join}{fixed}")
    return tokenizer


def _train(
    tokenizer: tokenizers.Tokenizer,
    texts: Iterator[str],
    config: TokenizerConfig,
    special: Sequence[str],
    alphabet: Sequence[str] = (),
) -> None:
    trainer = KINDS[config.kind].trainer
    assert trainer is not None
    try:
        tokenizer.train_from_iterator(texts, trainer(config, list(special), list(alphabet)))
    except Exception as error:
        if "not large enough to contain all chars" in str(error):
            raise _too_small(config, "all characters of the text") from None
        raise


def _alphabet(texts: Iterator[str], tokenizer: tokenizers.Tokenizer, config: TokenizerConfig) -> list[str]:
    """The characters of the texts that get a token, the most frequent first."""
    normalizer = tokenizer.normalizer
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text) if normalizer else text)
    if config.falls_back and not config.alphabet:
        return covering(counts)
    return _most_frequent(counts)[: config.alphabet]


def covering(counts: Counter[str]) -> list[str]:
    """The characters that make up nearly all of a text, the most frequent first."""
    ordered = _most_frequent(counts)
    covered = list(accumulate(counts[character] for character in ordered))
    return ordered[: bisect_left(covered, COVERAGE * counts.total()) + 1]


def _most_frequent(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda one: (-counts[one], one))


def _words(texts: Iterator[str], tokenizer: tokenizers.Tokenizer) -> list[str]:
    """The words between spaces but <unk>, the most frequent first."""
    counts, normalizer = Counter[str](), tokenizer.normalizer
    assert normalizer is not None
    for word, count in Counter(word for text in texts for word in text.split()).items():
        for part in normalizer.normalize_str(word).split():
            counts[part] += count
    counts.pop(SPECIAL_TOKENS[UNK], None)
    return _most_frequent(counts)


def _nonempty(texts: Iterable[str]) -> Iterator[str]:
    """The texts that are not blank, without what no token may contain; raises DataError if there are none."""
    empty = True
    for text in texts:
        if text and not text.isspace():
            empty = False
            yield STAND_IN.sub("", without_surrogates(text))
    if empty:
        raise _no_text()


@contextmanager
def _repeatable(texts: Iterable[str]) -> Iterator[Callable[[], Iterable[str]]]:
    """A function that returns the texts from the start; an iterator is buffered in a temporary file."""
    if iter(texts) is not texts:
        yield lambda: texts
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.writelines(json.dumps(text) + "\n" for text in texts)

        def again() -> Iterator[str]:
            file.seek(0)
            return map(json.loads, file)

        yield again


def _no_text() -> DataError:
    return DataError("tokenizer: no text to train on; every line of the training text is empty")


def _too_small(config: TokenizerConfig, content: str) -> SettingsError:
    fix = "; raise it, or set alphabet" if KINDS[config.kind].limits_alphabet else "; raise it"
    return SettingsError(f"tokenizer: vocabulary {config.vocabulary} cannot hold {content}{fix}")
