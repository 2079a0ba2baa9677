"""A trained translator in use: texts in, translations out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, overload

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.config import Settings, parse_settings
from clearhead.data.batch import PairBatch
from clearhead.data.progress import ProgressCallback, ignore_progress
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
from clearhead.models import EncoderDecoder
from clearhead.options import Options, as_texts, check_text
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.translation.directions import Direction, check_target, saved_directions, tag_ids
from clearhead.text.tokenizer import BOS, EOS, Tokenizer

# Maximum number of tokens that a translation has more than its source (Vaswani et al. 2017).
EXTRA_TOKENS = 50
# Maximum of rows times source length in a batch; larger batches are not faster.
BATCH_TOKENS = 4096


class SearchConfig(Settings):
    """Default search settings of the finished model."""

    beam: PositiveInt = 5
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    """Exponent of the length penalty; 0 ignores length."""


@dataclass(frozen=True)
class Translation:
    """A translation; `str()` gives the text."""

    source: str
    text: str
    score: float
    """The log-probability divided by the length penalty."""
    sum_log_prob: float = 0.0
    complete: bool = True
    """False if it reached the maximum length."""
    nbest: tuple["Translation", ...] = field(default=(), repr=False)
    """The n best translations, this one first."""
    too_long: bool = False
    """True if the source exceeds the model's maximum length, so that it was not translated."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Sampling(Options):
    """Sample translations instead of searching for the best one."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.seed <= MAX_SEED:
            raise SettingsError(f"seed: {self.seed} should be from 0 to {MAX_SEED}")
        check_sampling(self.temperature, self.top_k, self.top_p, self.min_p)


@dataclass(frozen=True)
class TranslateOptions(Options):
    """How to decode: beam search (a beam of 1 is greedy), or sampling."""

    beam: int | None = None
    """Default: the model's own setting."""
    nbest: int = 1
    length_penalty: float | None = None
    """Exponent of the length penalty. Default: the model's own setting."""
    prefix: str | Sequence[int] = ""
    """Forced start of each translation: a text, or token ids."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that occurred before become less likely."""
    no_repeat: int = 0
    """No n-gram of this size occurs twice; 0 allows any."""
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling:
            if self.nbest > 1:
                raise SettingsError(
                    f"nbest: {self.nbest} needs beam search; sample with several seeds instead"
                )
            for name in ("beam", "length_penalty"):
                if getattr(self, name) is not None:
                    raise SettingsError(
                        f"{name}: {getattr(self, name)} has no effect on sampling; leave it out"
                    )
        check_search(1 if self.beam is None else self.beam, 1, self.length_penalty or 0.0)
        if self.no_repeat < 0:
            raise SettingsError(f"no_repeat: {self.no_repeat} should be at least 0 (0 allows any)")
        self.adjustments()

    def adjustments(self) -> list[Adjust]:
        """The penalties on the logits."""
        adjustments = []
        if self.repetition_penalty != 1:
            adjustments.append(repetition_penalty(self.repetition_penalty))
        if self.no_repeat:
            adjustments.append(no_repeat_ngrams(self.no_repeat))
        return adjustments

    def resolved(self, search: SearchConfig) -> "TranslateOptions":
        """The same options, with a model's own settings as defaults."""
        if self.sampling:
            return self
        beam = search.beam if self.beam is None else self.beam
        penalty = search.length_penalty if self.length_penalty is None else self.length_penalty
        check_search(beam, self.nbest, penalty)
        return replace(self, beam=beam, length_penalty=penalty)


class TranslationModel:
    """A translator with its tokenizer and its directions."""

    task = "translation"
    evaluate_options = ("pairs", "against", "source", "target", "beam", "length_penalty", "out", "columns")
    evaluate_unit = "sentence"
    name = ""
    """The name or folder it was loaded from."""

    def __init__(
        self,
        model: EncoderDecoder,
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
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "TranslationModel":
        settings = checkpoint.settings
        search = parse_settings(SearchConfig, settings.get("search", {}), group="search")
        assert isinstance(checkpoint.model, EncoderDecoder)
        return cls(checkpoint.model, checkpoint.processor, saved_directions(settings), search)

    def variant(self, name: str) -> "TranslationModel":
        """The same model for a single direction, such as "en-de"."""
        one = copy(self)
        one.directions = tuple(direction for direction in self.directions if str(direction) == name)
        return one

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, without </s> and the language tag."""
        return self.model.config.max_tokens - bool(self._tags)

    def tag(self, to: str | None) -> list[int]:
        """The ids before each source that select the target language."""
        target = check_target(self.directions, to)
        return [self._tags[target]] if self._tags else []

    @overload
    def translate(
        self,
        texts: str,
        to: str | None = None,
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        sampling: Sampling | None = None,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        texts: list[str],
        to: str | None = None,
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        sampling: Sampling | None = None,
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | list[str],
        to: str | None = None,
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        sampling: Sampling | None = None,
    ) -> Translation | list[Translation]:
        """Translates a text, or a list of texts in order; blank texts stay blank.

        `to` is required if the model writes several languages. Keyword arguments are those of
        `TranslateOptions`. The result for a text does not depend on the texts beside it.
        """
        options = TranslateOptions(
            beam, nbest, length_penalty, prefix, repetition_penalty, no_repeat, sampling
        ).resolved(self.search)
        tag, several = self.tag(to), as_texts(texts)
        encoded = self.tokenizer.encode_batch(several)
        for number, (text, ids) in enumerate(zip(several, encoded, strict=True), start=1):
            if len(ids) > self.max_length:
                raise self._too_long(number, text, len(ids))
        found = self._translate(several, encoded, tag, options)
        return found[0] if isinstance(texts, str) else found

    def translations(
        self,
        texts: Iterable[str],
        to: str | None = None,
        *,
        batch_size: int = 512,
        options: TranslateOptions | None = None,
    ) -> Iterator[Translation]:
        """Translations in the order of the texts, which may be an endless stream.

        A text that is too long for the model has an empty translation, marked `too_long`. If reading a text
        fails, the translations of all texts before it come first.
        """
        tag, options = self.tag(to), (options or TranslateOptions()).resolved(self.search)
        if isinstance(texts, str):
            raise TextError(f"texts: {texts!r:.40} is one text; give a list, or use translate")
        if batch_size < 1:
            raise SettingsError(f"batch_size: {batch_size} should be at least 1")
        done = 0
        for chunk, problem in _chunks(iter(texts), batch_size):
            for number, text in enumerate(chunk, start=done + 1):
                check_text(text, f"text {number}")
            encoded = self.tokenizer.encode_batch(chunk)
            long = [len(ids) > self.max_length for ids in encoded]
            shortened = [[] if is_long else ids for ids, is_long in zip(encoded, long, strict=True)]
            found = self._translate(chunk, shortened, tag, options, done)
            for one, is_long in zip(found, long, strict=True):
                yield replace(one, complete=False, too_long=True) if is_long else one
            if problem:
                raise problem
            done += len(chunk)

    def stream(
        self,
        texts: Iterable[str],
        to: str | None = None,
        *,
        batch_size: int = 512,
        options: TranslateOptions | None = None,
    ) -> Iterator[Translation]:
        """Like `translations`, but raises a TextError at the end if any text was too long."""
        first, count = None, 0
        for number, one in enumerate(
            self.translations(texts, to, batch_size=batch_size, options=options), start=1
        ):
            if one.too_long:
                first = first or self._too_long(number, one.source)
                count += 1
            yield one
        if first:
            raise TextError(f"{first}; texts too long: {count:,}; all others are translated")

    def explain(
        self,
        text: str,
        to: str | None = None,
        *,
        target: str | None = None,
        names: Sequence[str] = ("*",),
        options: TranslateOptions | None = None,
    ) -> Explanation:
        """A translation at full speed, then one captured pass over text and translation.

        Captures a given `target` instead of the model's own translation. Keeps only tensors whose names
        match.
        """
        check_text(text)
        if target is not None:
            check_text(target, "target")
        tag, options = self.tag(to), (options or TranslateOptions()).resolved(self.search)
        ids = self._encode_one(text)
        if not ids:
            raise TextError("text: is blank; give a sentence to explain")
        source, found, tree = tag + ids, [], None
        if target is None:
            tree = None if options.sampling else Tree(EOS, options.beam or 1)
            (found,) = self._search([source], [0], options, tree)
        target_ids = found[0].tokens if found else self._encode_one(target or "")
        sides = {
            "source": source_tokens(self.tokenizer, source, text),
            "target": target_tokens(self.tokenizer, target_ids, not found or found[0].complete, bool(found)),
        }
        explanation = explain_pass(
            self.model,
            lambda: pair_logits(self.model, source, target_ids),
            sides,
            names,
            self.tokenizer,
            text,
            self.tokenizer.decode(target_ids),
        )
        return replace(
            explanation,
            normalized=self.tokenizer.normalized(text),
            settings={"to": check_target(self.directions, to), **asdict(options)},
            name=self.name,
            found=self._translation(text, found) if found else None,
            tree=tree,
        )

    def evaluate(
        self,
        folder: Path,
        *,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
        **options: Any,
    ) -> Evaluation:
        """Scores on test pairs; the options are those of tasks/translation/evaluate.py."""
        from clearhead.tasks.translation.evaluate import evaluate

        return evaluate(self, folder, progress=progress, **options)

    def about(self) -> dict[str, Any]:
        """The directions, limits and search settings, for the explorer."""
        languages = [{"source": one.source, "target": one.target} for one in self.directions]
        search = {"beam": self.search.beam, "length_penalty": self.search.length_penalty}
        return {"languages": languages, "max_tokens": self.max_length, **search}

    def explain_options(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `explain` for an explorer request."""
        given = {"to": request.get("to") or self.directions[0].target, "target": request.get("target")}
        beam, prefix = request.get("beam"), request.get("forced") or request.get("prefix") or ""
        return {**given, "options": TranslateOptions(beam=beam, prefix=prefix)} if beam or prefix else given

    @torch.inference_mode()
    def next_logits(
        self, text: str, generated: Sequence[int] = (), to: str | None = None
    ) -> tuple[Tensor, int]:
        """The logits after these tokens of a translation, and the number of tokens the decoder has read."""
        source, limit = self.tokenizer.encode(text), self.max_length
        if not source:
            raise TextError("text: is empty; give a text to translate")
        if len(source) > limit or len(generated) > self.model.config.max_tokens:
            length = max(len(source), len(generated))
            raise TextError(f"text: {length} tokens, but the model takes at most {limit}; shorten it")
        logits = pair_logits(self.model, [*self.tag(to), *source], generated)
        return logits[-1], len(generated) + 1

    def _encode_one(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(text)
        if len(ids) > self.max_length:
            raise self._too_long(1, text, len(ids))
        return ids

    def _too_long(self, number: int, text: str, tokens: int | None = None) -> TextError:
        shown = " ".join(text[:40].split())
        tokens = len(self.tokenizer.encode(text)) if tokens is None else tokens
        return TextError(
            f"text {number} ('{shown}…'): {tokens} tokens, but the model takes at most {self.max_length}; "
            "split it"
        )

    def _translate(
        self,
        texts: Sequence[str],
        encoded: Sequence[list[int]],
        tag: list[int],
        options: TranslateOptions,
        before: int = 0,
    ) -> list[Translation]:
        """Translations of tokenised texts; `before` counts earlier texts, for the seed of each."""
        sources = [tag + ids if ids else [] for ids in encoded]
        found: dict[int, list[Hypothesis]] = {}
        for rows in _batches([len(ids) for ids in sources]):
            numbers = [before + row for row in rows]
            hypotheses = self._search([sources[row] for row in rows], numbers, options)
            found.update(zip(rows, hypotheses, strict=True))
        return [self._translation(text, found.get(row, [])) for row, text in enumerate(texts)]

    @torch.inference_mode()
    def _search(
        self,
        sources: list[list[int]],
        numbers: list[int],
        options: TranslateOptions,
        tree: Tree | None = None,
    ) -> list[list[Hypothesis]]:
        batch = PairBatch.of(sources, [[] for _ in sources]).to(self.device)
        state = self.model.start(batch.source, batch.source_lengths)
        max_length = (batch.source_lengths + EXTRA_TOKENS).clamp(max=self.model.config.max_tokens)
        forced = prefix_ids(self.tokenizer, options.prefix)
        prefix = [forced] * len(sources) if forced else None
        start = torch.full((len(sources),), BOS, device=self.device)
        constraints = Constraints(start, EOS, max_length, prefix, options.adjustments())
        if sampling := options.sampling:
            seeds = [sampling.seed + number for number in numbers]
            filters = (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
            return [[one] for one in sample(self.model.step, state, constraints, seeds, *filters)]
        beam, penalty = options.beam or 1, options.length_penalty or 0.0
        if beam == 1 and not tree:
            return [[one] for one in greedy_search(self.model.step, state, constraints, penalty)]
        return beam_search(self.model.step, state, constraints, beam, penalty, options.nbest, tree)

    def _translation(self, source: str, found: list[Hypothesis]) -> Translation:
        if not found:
            return Translation(source, "", 0.0)
        nbest = tuple(
            Translation(source, self.tokenizer.decode(one.tokens), one.score, one.sum_log_prob, one.complete)
            for one in found
        )
        return replace(nbest[0], nbest=nbest)


def pair_logits(model: EncoderDecoder, source: Sequence[int], target: Sequence[int]) -> Tensor:
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
    return (*tokens, *text_tokens(tokenizer, [EOS]))


def target_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], complete: bool, written: bool
) -> tuple[Token, ...]:
    """The tokens that the decoder reads, each with the next one; a complete target ends with </s>."""
    tokens = [replace(token, generated=written) for token in text_tokens(tokenizer, ids)]
    return with_next([*text_tokens(tokenizer, [BOS]), *tokens], [*ids, EOS] if complete else ids)


def _chunks(texts: Iterator[str], size: int) -> Iterator[tuple[list[str], ClearheadError | None]]:
    """The texts in chunks; the last one comes with the error that ended the stream, if any."""
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
    """Rows to decode together: of similar length, within the budget; empty rows are left out."""
    batch: list[int] = []
    for row in sorted((row for row, length in enumerate(lengths) if length), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * (lengths[row] + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def prefix_ids(tokenizer: Tokenizer, prefix: str | Sequence[int]) -> list[int]:
    """The ids of a forced start, given as a text or as ids."""
    if isinstance(prefix, str):
        return tokenizer.encode(prefix) if prefix else []
    for number in prefix:
        if not len(tokenizer.special_tokens) <= number < tokenizer.size:
            raise SettingsError(f"prefix: {number} is not the id of a text token; give such ids, or a text")
    return list(prefix)
