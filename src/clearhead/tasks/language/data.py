"""From a recipe's text to a tokenizer and token stores; nothing is made twice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from clearhead.data.build import cached_store, cached_texts
from clearhead.data.pair import Pair, TaggedPair
from clearhead.data.sources.corpus import read_pairs
from clearhead.data.sources.documents import files, read_all_documents, read_documents, texts_hash
from clearhead.data.sources.plain_text import BLANK, TextChunk
from clearhead.data.splits import HeldOut, Split, UnsplitCorpus, hold_out
from clearhead.data.store import PairStore, TextStore
from clearhead.data.survey import Survey, TextSplit, split_text
from clearhead.errors import DataError
from clearhead.tasks.language.recipe import ANSWER, PROMPT, LanguageRecipe, TextConfig
from clearhead.tasks.translation.data import cache_folder
from clearhead.text.tokenizer import Tokenizer

Part = Literal["train", "validation"]
# More than a tokenizer can learn from: what follows in a larger text would only cost time.
TOKENIZER_CHARACTERS = 20_000_000
# With less, there is nothing to learn, and next to nothing to validate on.
LEAST = 100
# To be raised with every change by which reading or splitting gives other text.
PREPARATION = 3


@dataclass
class Corpus:
    """What a recipe says that there is to learn from."""

    config: TextConfig
    seed: int

    def paths(self) -> list[Path]:
        """The files to train on."""
        return [path for position in self.config.train for path in files(position)]

    @cached_property
    def described(self) -> dict[str, object]:
        """What the text depends on; for that all files are read, but once."""
        return {
            "preparation": PREPARATION,
            "files": [texts_hash(path) for path in self.config.paths],
            "counts": [len(self.config.train), len(self.config.validation)],
            "data": self.config.without_files(),
            "seed": self.seed,
        }


class TextCorpus(Corpus):
    """The text of a recipe in two parts, read anew whenever asked for."""

    def texts(self) -> Iterator[str]:
        """The text to train on, for a tokenizer to learn from."""
        return (piece.text for piece in self.pieces("train"))

    def example(self) -> str:
        piece = next(read_documents(self.config.train, self.config.field), None)
        if piece is None:
            raise DataError(f"{_named(self.config.train)}: holds no text")
        return next(line for line in piece.text.splitlines() if line.strip())

    def pieces(self, part: Part) -> Iterator[TextChunk]:
        """The documents of a part."""
        config = self.config
        if config.validation:
            return read_documents(config.train if part == "train" else config.validation, config.field)
        return self.split.part(read_documents(config.train, config.field), part)

    def store(self, part: Part, tokenizer: Tokenizer, max_length: int) -> TextStore:
        return cached_texts(
            cache_folder(), {**self.described, "part": part}, lambda: self.pieces(part), tokenizer
        )

    @cached_property
    def survey(self) -> Survey:
        return _surveyed(self, read_all_documents(self.config.train, self.config.field))

    @cached_property
    def split(self) -> TextSplit:
        return split_text(self.survey, self.config.hold_out.share, self.config.hold_out.most)


class Instructions(Corpus):
    """Prompts with answers in two parts, each set into the template; the answer's side ends the text."""

    def texts(self) -> Iterator[str]:
        return chain.from_iterable(self.pairs("train"))

    def example(self) -> str:
        first = next(self._set(self.config.train[:1]), None)
        if first is None:
            raise DataError(f"{_named(self.config.train)}: holds no prompts with answers")
        return " | ".join(side.replace("\n", "↵") for side in first)

    def pairs(self, part: Part) -> Iterator[Pair]:
        """The prompts of a part with their answers, as the model reads them."""
        if self.config.validation:
            return self._set(self.config.train if part == "train" else self.config.validation)
        held: HeldOut = {"validation": [], "test": []}
        trained = self.split.train(self._set(self.config.train), held)
        if part == "train":
            return trained
        for _ in trained:
            pass
        return iter(held["validation"])

    def store(self, part: Part, tokenizer: Tokenizer, max_length: int) -> PairStore:
        """Those that the model can read at once, the signs counted."""
        content = {**self.described, "part": part}
        store = cached_store(
            cache_folder(), content, lambda tally: map(TaggedPair, self.pairs(part)), tokenizer, max_length
        )
        ours, theirs = store.lengths
        fits = np.flatnonzero(ours + theirs < max_length)
        if len(fits) == len(store):
            return store
        if not len(fits):
            raise DataError(
                f"no prompt fits with its answer into {max_length} tokens; raise model.max_length"
            )
        return PairStore(store.source.gather(fits), store.target.gather(fits), store.meta)

    @cached_property
    def survey(self) -> Survey:
        """Of prompts and answers as the model reads them, each with its own a document."""
        pairs = self._set_or_blank(self.config.train)
        return _surveyed(self, (TextChunk("".join(pair), last=True) if pair else BLANK for pair in pairs))

    @cached_property
    def split(self) -> Split:
        # Of copies, one counts.
        pairs, wanted = len({hash(pair) for pair in self._set(self.config.train)}), self.config.hold_out
        count = min(pairs - 1, -(-pairs * wanted.share // 1), wanted.most)
        if pairs < 2:
            raise DataError(
                f"{_named(self.config.train)}: {pairs} different prompts with answers are too few to learn "
                "from"
            )
        whole = UnsplitCorpus(self._set(self.config.train), (PROMPT, ANSWER), int(count), 0)
        return hold_out([whole], self.seed)[0]

    def _set(self, files: Iterable[str]) -> Iterator[Pair]:
        """The pairs of files in the template; those that are blank on a side are left out."""
        return (pair for pair in self._set_or_blank(files) if pair)

    def _set_or_blank(self, files: Iterable[str]) -> Iterator[Pair | None]:
        """The same with None for each that is blank on a side."""
        before, _, after = (self.config.template or "").partition(f"{{{ANSWER}}}")
        for file in files:
            for prompt, answer in read_pairs(file, (PROMPT, ANSWER), self.config.columns):
                told = prompt.strip() and answer.strip()
                yield Pair(before.format(prompt=prompt), answer + after.format()) if told else None


def corpus_of(data: TextConfig, seed: int) -> TextCorpus | Instructions:
    """What there is to learn from."""
    return Instructions(data, seed) if data.template else TextCorpus(data, seed)


def learn_text_tokenizer(corpus: TextCorpus | Instructions, recipe: LanguageRecipe) -> Tokenizer:
    """A tokenizer learned from the training part."""
    return Tokenizer.train(_first(corpus.texts(), TOKENIZER_CHARACTERS), recipe.tokenizer)


def counted(number: int, thing: str) -> str:
    """'1 document', '2 documents'."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _first(texts: Iterator[str], most: int) -> Iterator[str]:
    for text in texts:
        yield text
        most -= len(text)
        if most <= 0:
            return


def _surveyed(corpus: Corpus, pieces: Iterable[TextChunk]) -> Survey:
    survey = Survey.of(pieces, corpus.seed)
    if survey.characters < LEAST:
        raise DataError(
            f"{_named(corpus.config.train)}: {counted(survey.characters, 'character')} of text; a language "
            f"model needs at least {LEAST}, better a million"
        )
    return survey


def _named(names: Iterable[str]) -> str:
    return " and ".join(names)
