"""How a vocabulary is learned from a stream of texts, in memory that grows with distinct words only."""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from clearhead.errors import DataError, SettingsError
from clearhead.text.kinds import SPECIALS, UNKNOWN, TokenizerConfig, untrained
from clearhead.text.normalize import without_surrogates

# A pair of pieces seen once teaches a model nothing about the longer piece it would make.
RAREST_MERGE = 2


def learn(texts: Iterable[str], config: TokenizerConfig, specials: Sequence[str]) -> tokenizers.Tokenizer:
    """The library's tokenizer: the special tokens first, then what the texts have taught it.

    The same texts give the same tokenizer, but for kind unigram: the library's trainer adds up in an
    order that changes from run to run, so scores differ slightly and with them some ids.
    """
    tokenizer = untrained(config)
    if config.kind == "character":
        alphabet = _alphabet(_saying(texts), tokenizer, config.alphabet)
        vocabulary = {token: number for number, token in enumerate([*specials, *alphabet])}
        tokenizer.model = models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIALS[UNKNOWN])
    elif config.alphabet:
        with _repeatable(texts) as read:
            alphabet = _alphabet(_saying(read()), tokenizer, config.alphabet)
            _train(tokenizer, _saying(read()), config, specials, alphabet)
    else:
        _train(tokenizer, _saying(texts), config, specials)
    size = tokenizer.get_vocab_size()
    if size == len(specials):
        raise _nothing_said()
    if size > config.vocabulary:
        raise _too_small(
            config, f"{size - len(specials)} characters of the text and {len(specials)} special tokens"
        )
    return tokenizer


def _train(
    tokenizer: tokenizers.Tokenizer,
    texts: Iterator[str],
    config: TokenizerConfig,
    specials: Sequence[str],
    alphabet: Sequence[str] = (),
) -> None:
    try:
        tokenizer.train_from_iterator(texts, _trainer(config, list(specials), list(alphabet)))
    except Exception as error:
        if "not large enough to contain all chars" in str(error):
            raise _too_small(config, "all characters of the text") from None
        raise


def _trainer(config: TokenizerConfig, specials: list[str], alphabet: list[str]) -> trainers.Trainer:
    match config.kind:
        case "unigram":
            return trainers.UnigramTrainer(
                vocab_size=config.vocabulary,
                special_tokens=specials,
                unk_token=SPECIALS[UNKNOWN],
                show_progress=False,
            )
        case "word":
            return trainers.WordLevelTrainer(
                vocab_size=config.vocabulary, special_tokens=specials, show_progress=False
            )
        case _:
            # The library breaks ties among rare characters at random, so the alphabet is chosen before.
            trainer = trainers.BpeTrainer(
                vocab_size=config.vocabulary,
                special_tokens=specials,
                min_frequency=RAREST_MERGE,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if config.kind == "bytes" else alphabet,
                show_progress=False,
            )
            if alphabet:
                trainer.limit_alphabet = len(alphabet)
            return trainer


def _alphabet(texts: Iterator[str], tokenizer: tokenizers.Tokenizer, most: int | None) -> list[str]:
    """The characters of the texts, the most frequent first."""
    normalizer = tokenizer.normalizer
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text) if normalizer else text)
    return sorted(counts, key=lambda character: (-counts[character], character))[:most]


def _saying(texts: Iterable[str]) -> Iterator[str]:
    """The texts that say something, without what cannot be written; none at all is an error."""
    empty = True
    for text in texts:
        if text and not text.isspace():
            empty = False
            yield without_surrogates(text)
    if empty:
        raise _nothing_said()


@contextmanager
def _repeatable(texts: Iterable[str]) -> Iterator[Callable[[], Iterable[str]]]:
    """Gives the texts as often as asked; those that come only once are kept in a temporary file."""
    if iter(texts) is not texts:
        yield lambda: texts
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.writelines(json.dumps(text) + "\n" for text in texts)

        def again() -> Iterator[str]:
            file.seek(0)
            return map(json.loads, file)

        yield again


def _nothing_said() -> DataError:
    return DataError("tokenizer: no text to learn from; every line of the training text is empty")


def _too_small(config: TokenizerConfig, content: str) -> SettingsError:
    way_out = "; raise it, or set alphabet" if config.kind in ("bpe", "character") else "; raise it"
    return SettingsError(f"tokenizer: vocabulary {config.vocabulary} cannot hold {content}{way_out}")
