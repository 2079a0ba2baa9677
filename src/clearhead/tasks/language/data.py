"""Training text: reading, splitting, tokenizer and cached token stores."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from clearhead.data.build import cached_store, cached_texts
from clearhead.data.cache import cache_folder
from clearhead.data.datasets import SHIPPED, is_shipped, shipped_file
from clearhead.data.pair import Pair, TaggedPair
from clearhead.data.sources.documents import files, read_all_documents, read_column, texts_hash
from clearhead.data.sources.plain_text import BLANK, TextChunk
from clearhead.data.sources.prompts import ANSWER, PROMPT, read_prompts
from clearhead.data.splits import HeldOut, Split, UnsplitCorpus, hold_out
from clearhead.data.store import PairStore, TextStore
from clearhead.data.survey import Survey, TextSplit, split_text
from clearhead.errors import DataError
from clearhead.tasks.language.recipe import VALIDATION, PlainTextConfig, TextConfig
from clearhead.tasks.records import write_named
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.wording import counted

Part = Literal["train", "validation"]
ConfigT = TypeVar("ConfigT", bound=PlainTextConfig)
# More text does not improve a tokenizer.
TOKENIZER_CHARACTERS = 20_000_000
MIN_CHARACTERS = 100
# Version of reading and splitting: raising it invalidates cached stores.
PREPARATION = 4


@dataclass
class Corpus(Generic[ConfigT]):
    """The training data of a recipe."""

    config: ConfigT
    seed: int

    def paths(self) -> list[Path]:
        """The training files."""
        return [path for name in self.config.train for path in files(name)]

    @cached_property
    def described(self) -> dict[str, object]:
        """Everything that the text depends on; computing it reads all files once."""
        return {
            "preparation": PREPARATION,
            "files": [texts_hash(path) for path in self.config.paths],
            "counts": [len(self.config.train), len(self.config.validation)],
            "data": self.config.without_files(),
            "seed": self.seed,
        }


class TextCorpus(Corpus[PlainTextConfig]):
    """Running text, split into training and validation; read from disk each time."""

    def texts(self) -> Iterator[str]:
        """The training text, for the tokenizer."""
        return (piece.text for piece in self.pieces("train"))

    def example(self) -> str:
        """A line of the text."""
        piece = next(self.documents(self.config.train), None)
        if piece is None:
            raise DataError(f"{_named(self.config.train)}: contains no text; name another file")
        return next(line for line in piece.text.splitlines() if line.strip())

    def pieces(self, part: Part) -> Iterator[TextChunk]:
        """The documents of a part, long ones in pieces."""
        config = self.config
        if config.validation:
            return self.documents(config.train if part == "train" else config.validation)
        return self.split.part(self.documents(config.train), part)

    def documents(self, names: Sequence[str]) -> Iterator[TextChunk]:
        """The documents of files, without blank ones."""
        return (chunk for chunk in self.all_documents(names) if chunk != BLANK)

    def all_documents(self, names: Sequence[str]) -> Iterator[TextChunk]:
        """The documents of files; a blank one is the chunk `BLANK`.

        Of shipped pairs, each sentence of the first column is a document, once: it has several translations.
        """
        seen = set[str]()
        for name in names:
            if not is_shipped(name, SHIPPED):
                yield from read_all_documents([name], self.config.field)
                continue
            for chunk in read_column(shipped_file(name), 0):
                if chunk.text not in seen:
                    seen.add(chunk.text)
                    yield chunk

    def store(self, part: Part, tokenizer: Tokenizer, max_length: int) -> TextStore:
        return cached_texts(
            cache_folder(), {**self.described, "part": part}, lambda: self.pieces(part), tokenizer
        )

    def held_out(self) -> Iterator[dict[str, str]]:
        """The validation text, one record per document."""
        text = ""
        for piece in self.pieces("validation"):
            text += piece.text
            if piece.last:
                yield {"text": text}
                text = ""

    @cached_property
    def survey(self) -> Survey:
        return _surveyed(self, self.all_documents(self.config.train))

    @cached_property
    def split(self) -> TextSplit:
        return split_text(self.survey, self.config.hold_out.share, self.config.hold_out.most)


class Instructions(Corpus[TextConfig]):
    """Prompts with answers in the template, split into training and validation."""

    def texts(self) -> Iterator[str]:
        """Prompts and answers to train on, for the tokenizer."""
        return chain.from_iterable(self.pairs("train"))

    def example(self) -> str:
        """A prompt and its answer, on one line."""
        first = next(self._formatted(self.config.train[:1]), None)
        if first is None:
            raise DataError(
                f"{_named(self.config.train)}: contains no prompts with answers; name another file"
            )
        return " | ".join(side.replace("\n", "↵") for side in first)

    def pairs(self, part: Part) -> Iterator[Pair]:
        """The prompts of a part with their answers, in the template."""
        if self.config.validation:
            return self._formatted(self.config.train if part == "train" else self.config.validation)
        held: HeldOut = {"validation": [], "test": []}
        trained = self.split.train(self._formatted(self.config.train), held)
        if part == "train":
            return trained
        for _ in trained:
            pass
        return iter(held["validation"])

    def held_out(self) -> Iterator[dict[str, str]]:
        """The validation pairs."""
        return ({PROMPT: prompt, ANSWER: answer} for prompt, answer in self.pairs("validation"))

    def store(self, part: Part, tokenizer: Tokenizer, max_length: int) -> PairStore:
        """The pairs that fit into the model's context."""
        content = {**self.described, "part": part}
        store = cached_store(
            cache_folder(), content, lambda tally: map(TaggedPair, self.pairs(part)), tokenizer, max_length
        )
        ours, theirs = store.lengths
        fits = np.flatnonzero(ours + theirs < max_length)
        if len(fits) == len(store):
            return store
        if not len(fits):
            raise DataError(f"no prompt and answer fit into {max_length} tokens; raise model.context_length")
        return PairStore(store.source.gather(fits), store.target.gather(fits), store.meta)

    @cached_property
    def survey(self) -> Survey:
        """The survey of all pairs, each in the template as one document."""
        pairs = self._formatted_or_blank(self.config.train)
        return _surveyed(self, (TextChunk("".join(pair), last=True) if pair else BLANK for pair in pairs))

    @cached_property
    def split(self) -> Split:
        # Duplicates count once.
        distinct = len({hash(pair) for pair in self._formatted(self.config.train)})
        if distinct < 2:
            raise DataError(
                f"{_named(self.config.train)}: only {distinct} distinct prompts with answers; add more"
            )
        hold = self.config.hold_out
        count = min(distinct - 1, -(-distinct * hold.share // 1), hold.most)
        whole = UnsplitCorpus(self._formatted(self.config.train), (PROMPT, ANSWER), int(count), 0)
        return hold_out([whole], self.seed)[0]

    def _formatted(self, files: Iterable[str]) -> Iterator[Pair]:
        """The pairs of files in the template, without those that are blank on a side."""
        return (pair for pair in self._formatted_or_blank(files) if pair)

    def _formatted_or_blank(self, files: Iterable[str]) -> Iterator[Pair | None]:
        """The pairs of files in the template; None for each that is blank on a side."""
        before, _, after = (self.config.template or "").partition(f"{{{ANSWER}}}")
        for file in files:
            for prompt, answer in read_prompts(file, self.config.columns):
                filled = prompt.strip() and answer.strip()
                yield Pair(before.format(prompt=prompt), answer + after.format()) if filled else None


def corpus_of(data: TextConfig, seed: int) -> TextCorpus | Instructions:
    """The corpus that the settings describe: pairs if there is a template, else running text."""
    return Instructions(data, seed) if data.template else TextCorpus(data, seed)


def learn_text_tokenizer(
    corpus: TextCorpus | Instructions, config: TokenizerConfig, tags: Sequence[str] = ()
) -> Tokenizer:
    """A tokenizer trained on the training part; `tags` are further special tokens."""
    return Tokenizer.train(_first(corpus.texts(), TOKENIZER_CHARACTERS), config, tags)


def write_held_out(corpus: TextCorpus | Instructions, out: Path) -> None:
    """Writes the held-out part of the training text to the folder of a run, once."""
    if not corpus.config.validation and not (out / VALIDATION).exists():
        records = (json.dumps(record) + "\n" for record in corpus.held_out())
        write_named(out / VALIDATION, "".join(records))


def _first(texts: Iterator[str], most: int) -> Iterator[str]:
    for text in texts:
        yield text
        most -= len(text)
        if most <= 0:
            return


def _surveyed(corpus: Corpus[Any], pieces: Iterable[TextChunk]) -> Survey:
    survey = Survey.of(pieces, corpus.seed)
    if survey.characters < MIN_CHARACTERS:
        raise DataError(
            f"{_named(corpus.config.train)}: {counted(survey.characters, 'character')} of text; a language "
            f"model needs at least {MIN_CHARACTERS}, better a million"
        )
    return survey


def _named(names: Iterable[str]) -> str:
    return " and ".join(names)
