"""A trained translator in use: texts in, translations out."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, overload

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.config import Settings, parse_settings
from clearhead.data.batch import PairBatch
from clearhead.decoding import (
    MAX_SEED,
    Adjust,
    Constraints,
    Hypothesis,
    Tree,
    beam_search,
    check_sampling,
    check_search,
    greedy_search,
    no_repeat_ngrams,
    repetition_penalty,
    sample,
)
from clearhead.errors import ClearheadError, SettingsError, TextError
from clearhead.inspection.explanation import Explanation, Token, explain_pass, text_tokens, with_next
from clearhead.layers.layout import Padded
from clearhead.models import Translator
from clearhead.options import check_text, check_types, listed, options_of
from clearhead.tasks.translation.directions import Direction, check_target, saved_directions, tag_ids
from clearhead.text.tokenizer import END, START, Tokenizer

# As in the paper: a translation may have so many tokens more than its source.
EXTRA_TOKENS = 50
# Rows times source length that are translated at once; beyond it, larger batches gain nothing.
BATCH_TOKENS = 4096


class SearchConfig(Settings):
    """How the finished model looks for translations unless asked otherwise."""

    beam: PositiveInt = 5
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    """The length penalty's power; 0 leaves lengths alone."""


@dataclass(frozen=True)
class Translation:
    """A translation; `str()` gives the text."""

    source: str
    text: str
    score: float
    """The log-probability over the length penalty."""
    log_probability: float = 0.0
    complete: bool = True
    """False when the longest length cut it off."""
    nbest: tuple["Translation", ...] = field(default=(), repr=False)
    """All that were asked for, best first; the first is this one."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Sampling:
    """Draw translations instead of searching for the best."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 <= self.seed <= MAX_SEED:
            raise SettingsError(f"seed: {self.seed} should be from 0 to {MAX_SEED}")
        check_sampling(self.temperature, self.top_k, self.top_p, self.min_p)


@dataclass(frozen=True)
class TranslateOptions:
    """How to look for translations: a beam of one is greedy search; with `sampling`, they are drawn."""

    beam: int = 5
    nbest: int = 1
    length_penalty: float = 0.6
    prefix: str | Sequence[int] = ""
    """How each translation begins: a text, or the ids of tokens."""
    repetition_penalty: float = 1.0
    """Above 1, words that were used already become less likely."""
    no_repeat: int = 0
    """No run of so many tokens comes twice; 0: any may."""
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        """What is wrong is said even where there is nothing to translate."""
        check_types(self)
        if self.sampling and self.nbest > 1:
            raise SettingsError(f"nbest: {self.nbest} goes with a beam; draw with several seeds instead")
        check_search(self.beam, self.nbest, self.length_penalty)
        if self.no_repeat < 0:
            raise SettingsError(f"no_repeat: {self.no_repeat} should be at least 0 (0 forbids nothing)")
        self.adjustments()

    def adjustments(self) -> list[Adjust]:
        """What bends the probabilities."""
        adjustments = []
        if self.repetition_penalty != 1:
            adjustments.append(repetition_penalty(self.repetition_penalty))
        if self.no_repeat:
            adjustments.append(no_repeat_ngrams(self.no_repeat))
        return adjustments


class TranslationModel:
    """A model with its tokenizer and its directions."""

    name = ""
    """By which it was loaded."""

    def __init__(
        self,
        model: Translator,
        tokenizer: Tokenizer,
        directions: Sequence[Direction],
        search: SearchConfig,
    ):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.directions = tuple(directions)
        self.search = search
        self._tags = tag_ids(directions, tokenizer)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "TranslationModel":
        assert isinstance(checkpoint.model, Translator)
        settings = checkpoint.settings
        search = parse_settings(SearchConfig, settings.get("search", {}), group="search")
        return cls(checkpoint.model, checkpoint.tokenizer, saved_directions(settings), search)

    def only(self, direction: Direction) -> "TranslationModel":
        """The same model for one of its directions, which then need not be named."""
        one = copy(self)
        one.directions = (direction,)
        return one

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @property
    def max_length(self) -> int:
        """The most tokens a text may have, </s> and the tag of a language not counted."""
        return self.model.config.max_tokens - bool(self._tags)

    def lead(self, to: str | None) -> list[int]:
        """What stands before each source so that the model writes this language."""
        target = check_target(self.directions, to)
        return [self._tags[target]] if self._tags else []

    def fits(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text is short enough for the model."""
        return [len(ids) <= self.max_length for ids in self.tokenizer.encode_batch(texts)]

    @overload
    def translate(self, texts: str, to: str | None = None, **given: Any) -> Translation: ...
    @overload
    def translate(self, texts: list[str], to: str | None = None, **given: Any) -> list[Translation]: ...
    def translate(
        self, texts: str | list[str], to: str | None = None, **given: Any
    ) -> Translation | list[Translation]:
        """Translates a text, or several in their order; blank ones stay blank. Wishes are those of `Wishes`.

        `to` is needed where the model writes several languages. What a text gives does not depend on the
        texts beside it.
        """
        asked = self.lead(to)
        found = self._translate(listed(texts), asked, self._options(given))
        return found[0] if isinstance(texts, str) else found

    def stream(
        self, texts: Iterable[str], at_once: int = 512, to: str | None = None, **given: Any
    ) -> Iterator[Translation]:
        """Translations in the order of the texts, so many at once, without end if the texts have none.

        Where a text cannot be read, the translations of all before it come first. One that is too long gives
        a blank translation, and the error comes at the end.
        """
        asked, options = self.lead(to), self._options(given)
        if isinstance(texts, str):
            raise TextError(f"texts: {texts!r:.40} is one text; give a list of them, or use translate")
        if at_once < 1:
            raise SettingsError(f"at_once: {at_once} should be at least 1")
        done, first_long, long = 0, None, 0
        for chunk, problem in _chunks(iter(texts), at_once):
            for number, text in enumerate(chunk, start=done + 1):
                check_text(text, f"text {number}")
            for place in [place for place, fits in enumerate(self.fits(chunk)) if not fits]:
                first_long = first_long or self._too_long(done + place + 1, chunk[place])
                chunk[place], long = "", long + 1
            yield from self._translate(chunk, asked, options, done)
            if problem:
                raise problem
            done += len(chunk)
        if first_long:
            raise TextError(f"{first_long}; {long:,} such left blank, all others are translated")

    def explain(
        self,
        text: str,
        to: str | None = None,
        target: str | None = None,
        names: Sequence[str] = ("*",),
        **given: Any,
    ) -> Explanation:
        """What a text does inside the model: translated at full speed, then looked at in one pass.

        With a `target`, that is looked at instead of the model's own translation. Only tensors that match
        the names are kept. Wishes are those of `Wishes`; a search tells its tree.
        """
        check_text(text)
        if target is not None:
            check_text(target, "target")
        asked, options = self.lead(to), self._options(given)
        (ids,) = self._encode([text])
        if not ids:
            raise TextError("the text is blank: there is nothing to explain; give a sentence")
        source, found, tree = asked + ids, [], None
        if target is None:
            tree = None if options.sampling else Tree(END, options.beam)
            (found,) = self._search([source], [0], options, tree)
        said = found[0].tokens if found else self._encode([target or ""])[0]
        sides = {
            "source": source_tokens(self.tokenizer, source, text),
            "target": target_tokens(self.tokenizer, said, not found or found[0].complete, bool(found)),
        }
        explanation = explain_pass(
            self.model,
            lambda: pair_logits(self.model, source, said),
            sides,
            names,
            self.tokenizer,
            text,
            self.tokenizer.decode(said),
        )
        return replace(
            explanation,
            normalized=self.tokenizer.normalized(text),
            settings={"to": check_target(self.directions, to), **asdict(options)},
            name=self.name,
            found=self._translation(text, found) if found else None,
            tree=tree,
        )

    def _too_long(self, number: int, text: str) -> TextError:
        tokens, shown = len(self.tokenizer.encode(text)), " ".join(text[:40].split())
        return TextError(
            f"text {number} ('{shown}…'): {tokens} tokens, and the model takes {self.max_length}: split it"
        )

    def _options(self, given: dict[str, Any]) -> TranslateOptions:
        if given.get("sampling"):
            for name in ("beam", "length_penalty"):
                if name in given:
                    raise SettingsError(
                        f"{name}: {given[name]} goes with a search, but drawing was asked for"
                    )
        return options_of(
            TranslateOptions,
            {"beam": self.search.beam, "length_penalty": self.search.length_penalty, **given},
        )

    def _translate(
        self, texts: Sequence[str], asked: list[int], options: TranslateOptions, before: int = 0
    ) -> list[Translation]:
        """Translations of texts that follow so many others: each is drawn with a seed of its own."""
        encoded = [asked + ids if ids else [] for ids in self._encode(texts)]
        found: dict[int, list[Hypothesis]] = {}
        for rows in _batches([len(ids) for ids in encoded]):
            numbers = [before + row for row in rows]
            hypotheses = self._search([encoded[row] for row in rows], numbers, options)
            found.update(zip(rows, hypotheses, strict=True))
        return [self._translation(text, found.get(row, [])) for row, text in enumerate(texts)]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch(texts)
        for number, (text, ids) in enumerate(zip(texts, encoded, strict=True), start=1):
            if len(ids) > self.max_length:
                raise self._too_long(number, text)
        return encoded

    @torch.inference_mode()
    def _search(
        self,
        encoded: list[list[int]],
        numbers: list[int],
        options: TranslateOptions,
        tree: Tree | None = None,
    ) -> list[list[Hypothesis]]:
        batch = PairBatch.of(encoded, [[] for _ in encoded]).to(self.device)
        state = self.model.start(batch.source, batch.source_lengths)
        max_length = (batch.source_lengths + EXTRA_TOKENS).clamp(max=self.model.config.max_tokens)
        forced = self._forced(options.prefix)
        prefix = [forced] * len(encoded) if forced else None
        constraints = Constraints(
            len(encoded), START, END, max_length, prefix, options.adjustments(), self.device
        )
        if drawn := options.sampling:
            seeds = [drawn.seed + number for number in numbers]
            filters = (drawn.temperature, drawn.top_k, drawn.top_p, drawn.min_p)
            return [[one] for one in sample(self.model.step, state, constraints, seeds, *filters)]
        if options.beam == 1 and not tree:
            return [
                [one] for one in greedy_search(self.model.step, state, constraints, options.length_penalty)
            ]
        return beam_search(
            self.model.step, state, constraints, options.beam, options.length_penalty, options.nbest, tree
        )

    def _forced(self, prefix: str | Sequence[int]) -> list[int]:
        """The ids with which translations begin."""
        if isinstance(prefix, str):
            return self.tokenizer.encode(prefix) if prefix else []
        for number in prefix:
            if not len(self.tokenizer.specials) <= number < self.tokenizer.size:
                raise SettingsError(f"prefix: {number} is not the id of a word; give ids of words, or a text")
        return list(prefix)

    def _translation(self, source: str, found: list[Hypothesis]) -> Translation:
        if not found:
            return Translation(source, "", 0.0)
        several = tuple(
            Translation(
                source,
                self.tokenizer.decode(one.tokens),
                one.score,
                one.log_probability,
                one.complete,
            )
            for one in found
        )
        best = several[0]
        return Translation(source, best.text, best.score, best.log_probability, best.complete, several)


def pair_logits(model: Translator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """The logits of a pass in which the encoder reads the source and </s>, the decoder <s> and the target."""
    batch = PairBatch.of([source], [target]).to(model.readout_weight.device)
    return model(batch.source, Padded(batch.source_lengths), batch.inputs)[0]


def source_tokens(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> tuple[Token, ...]:
    """The tokens that the encoder reads: ids, the last of which are those of the text, and </s>."""
    tokens = text_tokens(tokenizer, ids)
    # Only the text tells apart words that are not in the vocabulary.
    numbers = tokenizer.word_numbers(text)
    for position, number in enumerate(numbers, start=len(ids) - len(numbers)):
        tokens[position] = replace(tokens[position], word=number)
    return (*tokens, *text_tokens(tokenizer, [END]))


def target_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], complete: bool, written: bool
) -> tuple[Token, ...]:
    """The tokens that the decoder reads, each with the next one; a complete target ends with </s>."""
    tokens = [replace(token, written=written) for token in text_tokens(tokenizer, ids)]
    return with_next([*text_tokens(tokenizer, [START]), *tokens], [*ids, END] if complete else ids)


def _chunks(texts: Iterator[str], size: int) -> Iterator[tuple[list[str], ClearheadError | None]]:
    """The texts, so many at once; the last chunk comes with the error that ended them, if any did."""
    while True:
        chunk: list[str] = []
        problem = None
        try:
            for text in islice(texts, size):
                chunk.append(text)
        except ClearheadError as error:
            problem = error
        if chunk or problem:
            yield chunk, problem
        if problem or len(chunk) < size:
            return


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Rows that are translated together: alike in length, within the budget; empty ones in none."""
    batch: list[int] = []
    for row in sorted((row for row, length in enumerate(lengths) if length), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * (lengths[row] + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
