"""From a recipe's files to a tokenizer and token stores; nothing is made twice."""

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

from clearhead.data.building import cached_store
from clearhead.data.cleaning import Tally, clean, normalized
from clearhead.data.corpus import Pair, Place, corpus_hash, read_pairs, reader_name
from clearhead.data.splits import HeldOut, Part, Split, hold_out
from clearhead.data.store import PairStore
from clearhead.tasks.recipe import DataConfig, TranslationRecipe
from clearhead.text.tokenizer import Tokenizer

# More than a tokenizer can learn from: what follows in a larger corpus would only cost time.
TOKENIZER_PAIRS = 1_000_000
# To be raised with every change by which reading, normalising, cleaning or splitting gives other pairs: a
# token store kept from before is then not taken for one of today.
PREPARATION = 1


def cache_folder() -> Path:
    """Where token stores are kept between runs: CLEARHEAD_CACHE, or the user's cache."""
    named = os.environ.get("CLEARHEAD_CACHE")
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(user) / "clearhead"


@dataclass
class Corpus:
    """The pairs of a recipe in three parts; that to train on is read anew whenever asked for.

    The training files are cleaned, and so is what is held out of them; files named for validation and test
    are not.
    """

    config: DataConfig
    seed: int
    _held: HeldOut | None = field(default=None, init=False, repr=False)

    def pairs(self, part: Part, tally: Tally | None = None) -> Iterator[Pair]:
        """The pairs of a part, as a stream; what is held out is tallied without what cleaning has dropped."""
        if part == "train":
            return self._train(tally)
        files = getattr(self.config, part)
        return normalized(self._read(files) if files else self._put_aside(part), tally)

    def examples(self) -> Iterator[Pair]:
        """Pairs as the first training file has them, to look at."""
        return normalized(self._read(self.config.train[:1]))

    @property
    def described(self) -> dict[str, object]:
        """What the pairs depend on; languages, columns and cleaning are among the data's settings."""
        return {
            "preparation": PREPARATION,
            "files": [corpus_hash(place) for place in self.config.places],
            "readers": [reader_name(place) for place in self.config.places],
            "data": self.config.model_dump(mode="json", exclude={"train", "validation", "test"}),
            "counts": [len(self.config.train), len(self.config.validation), len(self.config.test)],
            "seed": self.seed,
        }

    def _train(self, tally: Tally | None) -> Iterator[Pair]:
        """What is left to train on; once all has gone by, what is held out is known and kept in memory."""
        held: HeldOut = {"validation": [], "test": []}
        everything = self._cleaned(tally)
        yield from self._split.train(everything, held) if any(self._sizes) else everything
        self._held = held

    def _put_aside(self, part: Literal["validation", "test"]) -> list[Pair]:
        if self._held is None and any(self._sizes):
            deque(self._train(None), maxlen=0)
        return self._held[part] if self._held else []

    def _cleaned(self, tally: Tally | None) -> Iterator[Pair]:
        return clean(self._read(self.config.train), self.config.cleaning, tally)

    def _read(self, files: tuple[Place, ...]) -> Iterator[Pair]:
        config = self.config
        return chain.from_iterable(read_pairs(file, config.languages, config.columns) for file in files)

    @property
    def _sizes(self) -> tuple[int, int]:
        """How many pairs of the training files are kept for validation and test."""
        sizes = self.config.hold_out
        return (0 if self.config.validation else sizes.validation, 0 if self.config.test else sizes.test)

    @cached_property
    def _split(self) -> Split:
        return hold_out(self._cleaned(None), self.config.languages, *self._sizes, seed=self.seed)


def learn_tokenizer(corpus: Corpus, recipe: TranslationRecipe) -> Tokenizer:
    """One tokenizer for both languages, learned from the training part."""

    def texts() -> Iterator[str]:
        for number, pair in enumerate(corpus.pairs("train")):
            if number == TOKENIZER_PAIRS:
                return
            yield from pair

    return Tokenizer.train(texts(), recipe.tokenizer)


def store(corpus: Corpus, part: Part, tokenizer: Tokenizer, recipe: TranslationRecipe) -> PairStore:
    """The ids of a part; sentences that the model could not hold are left out."""
    read: Callable[[Tally], Iterator[Pair]] = lambda tally: corpus.pairs(part, tally)  # noqa: E731
    return cached_store(
        cache_folder(), {**corpus.described, "part": part}, read, tokenizer, recipe.model.most_words
    )


def tally(store: PairStore) -> Tally:
    """How the pairs came through cleaning and tokenising; those held out are among the kept."""
    counts, too_long = store.meta["tally"], store.meta["too_long"]
    beyond = {"too many tokens": too_long} if too_long else {}
    return Tally(counts["kept"] - too_long, Counter(counts["dropped"] | beyond))
