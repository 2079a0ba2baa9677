"""Training pairs: reading, cleaning, splitting, tokenizer and cached token stores."""

import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from clearhead.data.build import cached_store
from clearhead.data.cache import cache_folder
from clearhead.data.cleaning import Tally, clean, matched, normalized, sample
from clearhead.data.pair import TaggedPair
from clearhead.data.sources.columns import ColumnsError
from clearhead.data.sources.corpus import DataPath, Pair, corpus_hash, pair_files, read_pairs, reader_name
from clearhead.data.splits import HeldOut, Part, Split, UnsplitCorpus, hold_out
from clearhead.data.store import PairStore
from clearhead.data.typography import typeset, variant
from clearhead.tasks.translation.directions import Direction, tag_ids, tags
from clearhead.tasks.translation.recipe import PARTS, CorpusConfig, DataConfig, TranslationRecipe
from clearhead.text.kinds import PLACEHOLDERS
from clearhead.text.tokenizer import Tokenizer

# More pairs do not improve a tokenizer.
TOKENIZER_PAIRS = 1_000_000
# Version of reading, normalising, cleaning and splitting: raising it invalidates cached stores.
PREPARATION = 4


@dataclass
class Corpus:
    """The pairs of a recipe in three parts; the training part is read from disk each time.

    Training files and the pairs held out from them are cleaned; validation and test files are not.
    """

    config: DataConfig
    seed: int
    _held: dict[int, HeldOut] = field(default_factory=dict, init=False, repr=False)

    def split(self) -> None:
        """Chooses the held-out pairs, which reads the files that they come from."""
        if self._holds_out:
            _ = self._splits

    def pairs(self, part: Part, tally: Tally | None = None) -> Iterator[Pair]:
        """The pairs of a part, as a stream, each in the direction of its corpus."""
        return chain.from_iterable(self._part(number, part, tally) for number in self._numbers)

    def directed(
        self, part: Part, tags: Mapping[str, int], tally: Tally | None = None
    ) -> Iterator[TaggedPair]:
        """The pairs of a part in every direction, with the tag ids of the target languages."""
        for number in self._numbers:
            corpus = self.config.corpora[number]
            there, *back = corpus.directions
            repeat = corpus.repeat if part == "train" else 1
            for pair in self._part(number, part, tally):
                variants = list(self._variants(pair, there, part, tags))
                for direction in back:
                    variants += self._variants(pair.swapped, direction, part, tags)
                yield from variants * repeat

    def by_direction(self, part: Part) -> dict[Direction, list[Pair]]:
        """The pairs of a part by direction."""
        found: dict[Direction, list[Pair]] = {direction: [] for direction in self.config.directions}
        for number in self._numbers:
            pairs = list(self._part(number, part, None))
            there, *back = self.config.corpora[number].directions
            found[there] += pairs
            for direction in back:
                found[direction] += [pair.swapped for pair in pairs]
        return found

    def texts(self, most: int) -> Iterator[str]:
        """Both sides of at most `most` training pairs, equally many from each corpus."""
        for number in self._numbers:
            yield from chain.from_iterable(
                islice(self._part(number, "train", None), most // len(self._numbers))
            )

    def examples(self) -> Iterator[Pair]:
        """Pairs of the first training file, as examples."""
        first = self.config.corpora[0]
        return normalized(self._read(first, first.train[:1]))

    @property
    def described(self) -> dict[str, object]:
        """Everything that the pairs depend on."""
        return {
            "preparation": PREPARATION,
            "files": [corpus_hash(path) for path in self.config.paths],
            "readers": [reader_name(path) for path in self.config.paths],
            "data": self.config.without_files(),
            "counts": [[len(getattr(one, part)) for part in PARTS] for one in self.config.corpora],
            "seed": self._split_seed,
        }

    @property
    def _numbers(self) -> range:
        return range(len(self.config.corpora))

    def _part(self, number: int, part: Part, tally: Tally | None) -> Iterator[Pair]:
        """A part of one of the corpora."""
        if part == "train":
            return self._train(number, tally)
        corpus = self.config.corpora[number]
        files = getattr(corpus, part)
        return normalized(self._read(corpus, files) if files else self._held_out(number, part), tally)

    def _variants(
        self, pair: Pair, direction: Direction, part: Part, tags: Mapping[str, int]
    ) -> Iterator[TaggedPair]:
        """A pair in one direction; to train on, with the typography and the variants of the settings."""
        tag, cleaning = tags.get(direction.target), self.config.cleaning
        if part != "train":
            yield TaggedPair(pair, tag)
            return
        if cleaning.typeset_targets:
            pair = Pair(pair.source, typeset(pair.target, direction.target))
        yield TaggedPair(pair, tag)
        if changed := variant(pair, cleaning.variants):
            yield TaggedPair(changed, tag)

    def _train(self, number: int, tally: Tally | None) -> Iterator[Pair]:
        """The training pairs; at the end of the stream, the held-out pairs are kept in memory."""
        held: HeldOut = {"validation": [], "test": []}
        pairs = self._cleaned(number, tally)
        pairs = self._splits[number].train(pairs, held) if self._holds_out else pairs
        # Held-out pairs stay as they are, so that scores of models with other settings can be compared.
        yield from matched(pairs, tally) if self.config.cleaning.drop_mismatched else pairs
        self._held[number] = held

    def _held_out(self, number: int, part: Literal["validation", "test"]) -> list[Pair]:
        if number not in self._held and any(self._sizes(number)):
            deque(self._train(number, None), maxlen=0)
        return self._held[number][part] if number in self._held else []

    def _cleaned(self, number: int, tally: Tally | None) -> Iterator[Pair]:
        corpus = self.config.corpora[number]
        pairs = self._read(corpus, corpus.train)
        if corpus.sample:
            # Files of another run, which have no header.
            held_out = (read_pairs(file, corpus.languages, (0, 1)) for file in corpus.without)
            without = chain.from_iterable(held_out)
            pairs = sample(pairs, corpus.sample, without)
        return clean(pairs, self.config.cleaning, tally)

    def _read(self, corpus: CorpusConfig, files: tuple[DataPath, ...]) -> Iterator[Pair]:
        try:
            for file in files:
                yield from read_pairs(file, corpus.languages, corpus.columns)
        except ColumnsError as error:
            if len(self.config.corpora) == 1:
                raise
            names = json.dumps(list(error.columns), ensure_ascii=False)
            raise error.naming(f"columns = {names} in its [[data.corpora]]") from None

    def _sizes(self, number: int) -> tuple[int, int]:
        """How many pairs of the training files are held out for validation and test."""
        corpus, sizes = self.config.corpora[number], self.config.hold_out
        if corpus.train_only or corpus.sample:
            return 0, 0
        return (0 if corpus.validation else sizes.validation, 0 if corpus.test else sizes.test)

    @property
    def _holds_out(self) -> bool:
        return any(any(self._sizes(number)) for number in self._numbers)

    @cached_property
    def _splits(self) -> list[Split]:
        whole = [
            UnsplitCorpus(self._cleaned(number, None), corpus.languages, *self._sizes(number))
            for number, corpus in enumerate(self.config.corpora)
        ]
        return hold_out(whole, self._split_seed)

    @property
    def _split_seed(self) -> int:
        seed = self.config.hold_out.seed
        return self.seed if seed is None else seed


def training_files(corpus: CorpusConfig) -> list[Path]:
    """The training files of a corpus."""
    return [path for name in corpus.train for path in pair_files(name)]


def learn_tokenizer(corpus: Corpus, recipe: TranslationRecipe) -> Tokenizer:
    """One tokenizer for all languages, trained on the training part."""
    special = list(tags(recipe.data.directions).values())
    if recipe.tokenizer.falls_back:
        special += PLACEHOLDERS
    return Tokenizer.train(corpus.texts(TOKENIZER_PAIRS), recipe.tokenizer, special)


def store(corpus: Corpus, part: Part, tokenizer: Tokenizer, recipe: TranslationRecipe) -> PairStore:
    """The ids of a part in all directions, without pairs that are too long for the model."""
    ids = tag_ids(recipe.data.directions, tokenizer)
    content = {**corpus.described, "part": part, "tags": ids}
    read = partial(corpus.directed, part, ids)
    return cached_store(cache_folder(), content, read, tokenizer, recipe.model.max_tokens)


def tally(store: PairStore) -> Tally:
    """The number of kept pairs, and of dropped ones by reason; held-out pairs count as kept."""
    counts, too_long = store.meta["tally"], store.meta["too_long"]
    beyond = {"too many tokens": too_long} if too_long else {}
    return Tally(counts["kept"] - too_long, Counter(counts["dropped"] | beyond))
