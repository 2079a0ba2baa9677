"""Evaluation of translators: validation during training, scores and comparisons on test pairs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from clearhead.checkpoint import SETTINGS
from clearhead.config import read_toml
from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.columns import Columns, ColumnsError, columns_option
from clearhead.data.sources.corpus import DataPath, Pair, read_pairs
from clearhead.data.sources.streams import lines
from clearhead.data.sources.tables import tsv_rows
from clearhead.data.store import PairStore
from clearhead.errors import DataError, ModelError
from clearhead.models.engine import Precision
from clearhead.tasks.evaluation import Evaluation, TokenCallback, ignore_tokens
from clearhead.tasks.translation.directions import Direction, chosen, file_name, saved_directions, tag_ids
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import SearchConfig, TranslateOptions
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.search import search_all
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer
from clearhead.wording import counted

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

    from clearhead.evaluation.by_length import LengthBucket
    from clearhead.evaluation.metric import Score
    from clearhead.evaluation.significance import Comparison

T = TypeVar("T")


class Validator:
    """Loss and BLEU on held-out pairs of each direction, which are tokenized once per run."""

    def __init__(
        self, pairs: Mapping[Direction, Sequence[Pair]], tokenizer: Tokenizer, recipe: TranslationRecipe
    ):
        self.tokenizer, self.recipe = tokenizer, recipe
        self.tags = tag_ids(recipe.data.directions, tokenizer)
        encoded = {direction: self._encode(direction, some) for direction, some in pairs.items()}
        encoded = {direction: some for direction, some in encoded.items() if some}
        if not encoded:
            raise DataError(
                f"validation: none of {counted(sum(map(len, pairs.values())), 'pair')} has 1 to "
                f"{recipe.model.max_tokens} tokens; use shorter pairs, or raise model.max_length"
            )
        rows = [row for some in encoded.values() for row in some]
        store = PairStore.of([source for _, source, _ in rows], [target for _, _, target in rows])
        self.batches = PaddedBatches(store, BatchingConfig(tokens=recipe.batches.tokens), seed=0)
        share = -(-recipe.validation.sentences // len(encoded))
        self.sampled = {
            direction: _evenly([(pair, source) for pair, source, _ in some], share)
            for direction, some in (encoded.items() if share else ())
        }

    def measure(
        self, model: Any, autocast: AbstractContextManager, loss: Callable[..., Tensor]
    ) -> dict[str, float]:
        """The loss, and BLEU on a sample; with several directions, the BLEU of each and their mean.

        A Transformer translates in bf16 if the run uses bf16 autocast on a GPU, else in fp32.
        """
        model.eval()
        return {"loss": self.loss(model, autocast, loss), **self.bleu(model, _precision(autocast))}

    @torch.no_grad()
    def loss(self, model: Any, autocast: AbstractContextManager, loss: Callable[..., Tensor]) -> float:
        """The loss per token, without label smoothing."""
        total, tokens = 0.0, 0
        for batch in self.batches.epoch(0):
            with autocast:
                found = loss(model, batch.to(model.readout_weight.device))
            total, tokens = total + found.item(), tokens + batch.tokens
        return total / tokens

    def bleu(self, model: Any, precision: Precision = "fp32") -> dict[str, float]:
        """BLEU on the sampled pairs."""
        directions, beam = self.recipe.data.directions, self.recipe.validation.beam
        translator = TranslationModel(model, self.tokenizer, directions, SearchConfig(beam=beam))
        translator.precision = precision
        options = TranslateOptions().resolved(translator.search)
        found = {}
        for direction, sample in self.sampled.items():
            sources = [source for _, source in sample]
            best = search_all(translator.engine, self.tokenizer, sources, options)
            translations = [self.tokenizer.decode(one[0].tokens) for one in best]
            found[str(direction)] = self._metrics[direction].corpus_score(translations, None).score
        mean = {"bleu": sum(found.values()) / len(found)} if found else {}
        each = {f"bleu {name}": value for name, value in found.items()}
        return mean | (each if len(directions) > 1 else {})

    @cached_property
    def _metrics(self) -> "dict[Direction, BLEU]":
        """BLEU for each direction, with the sampled references."""
        # Not at the top of the file: loading a model needs no sacreBLEU.
        from clearhead.evaluation.bleu import bleu_metric

        return {
            direction: bleu_metric(direction.target, [pair.target for pair, _ in sample])
            for direction, sample in self.sampled.items()
        }

    def _encode(self, direction: Direction, pairs: Sequence[Pair]) -> list[tuple[Pair, list[int], list[int]]]:
        """The pairs that fit into the model, with their ids."""
        tag = [self.tags[direction.target]] if self.tags else []
        sources = self.tokenizer.encode_batch([pair.source for pair in pairs])
        targets = self.tokenizer.for_targets.encode_batch([pair.target for pair in pairs])
        most = self.recipe.model.max_tokens
        return [
            (pair, tag + source, target)
            for pair, source, target in zip(pairs, sources, targets, strict=True)
            if 0 < len(source) <= most - bool(self.tags) and 0 < len(target) <= most
        ]


def _precision(autocast: AbstractContextManager) -> Precision:
    """The precision of matrix products on a GPU in this context."""
    with autocast:
        is_bf16 = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
    return "bf16" if is_bf16 else "fp32"


@dataclass(frozen=True)
class HeldOutPairs:
    """Test pairs and their line numbers, without pairs that are blank on one side."""

    pairs: list[Pair]
    lines: list[int]
    read: int

    @property
    def blank(self) -> int:
        return self.read - len(self.pairs)

    def kept(self, each: Sequence[str]) -> list[str]:
        """Of items for every line, those of the pairs."""
        return [each[line] for line in self.lines]

    def spread(self, items: Sequence[str]) -> list[str]:
        """Items for every line from those of the pairs; empty for blank lines."""
        found = dict(zip(self.lines, items, strict=True))
        return [found.get(line, "") for line in range(self.read)]


@dataclass(frozen=True)
class EvaluationReport:
    """Scores on a test set: in all, by source length, and compared with another system."""

    sentences: int
    scores: "list[Score]"
    by_length: "list[LengthBucket]"
    comparisons: "list[Comparison]"


def held_out_pairs(
    path: DataPath | None, folder: Path, direction: Direction, columns: Columns | None = None
) -> HeldOutPairs:
    """The pairs in a file, or the test pairs that training held out, in the model's folder."""
    if path is None:
        file = folder / file_name("test", direction, saved_directions(read_toml(folder / SETTINGS)))
        if not file.exists() or not file.stat().st_size:
            raise DataError(f"{folder}: this folder has no held-out test pairs; name a file with --pairs")
        read = (Pair(row[0], row[1]) for _, row in tsv_rows(file))
    else:
        read = read_pairs(path, direction, columns)
    try:
        pairs = [Pair(normalize(source), normalize(target)) for source, target in read]
    except ColumnsError as error:
        raise error.naming(columns_option(error.columns)) from None
    lines = [line for line, pair in enumerate(pairs) if pair.source and pair.target]
    return HeldOutPairs([pairs[line] for line in lines], lines, len(pairs))


def scored(
    pairs: Sequence[Pair], translations: Sequence[str], language: str, against: Sequence[str] | None = None
) -> EvaluationReport:
    """Scores of translations, and a comparison with those of another system if given."""
    from clearhead.evaluation.bleu import scores
    from clearhead.evaluation.by_length import by_length
    from clearhead.evaluation.significance import paired_bootstrap

    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    return EvaluationReport(
        len(pairs),
        scores(translations, references, language),
        by_length(sources, translations, references, language),
        paired_bootstrap(translations, against, references, language) if against is not None else [],
    )


def evaluate(
    model: TranslationModel,
    folder: Path,
    *,
    pairs: DataPath | None = None,
    columns: Columns | None = None,
    source: str | None = None,
    target: str | None = None,
    against: Path | None = None,
    out: Path | None = None,
    options: TranslateOptions,
    progress: ProgressCallback = ignore_progress,
    generated: TokenCallback = ignore_tokens,
) -> Evaluation:
    """Scores on pairs, or on those held out in the model's folder; `out` receives the translations."""
    direction = chosen(model.directions, source, target, settings=("--from", "--to"))
    test = held_out_pairs(pairs, folder, direction, columns)
    # Errors in the other system or the output file are reported before the work begins.
    other = _other_system(against, direction, test, model.device) if against else None
    if out:
        out.touch()
    notes: list[str] = []
    if test.blank:
        notes.append(f"skipped {test.blank:,} of {counted(test.read, 'pair')} with a blank side")
    translations, too_long = _translations(
        model, test, direction.target, options, (progress, generated), notes
    )
    if out:
        out.write_text("".join(f"{line}\n" for line in test.spread(translations)), encoding="utf-8")
    if isinstance(other, TranslationModel):
        other, _ = _translations(other, test, direction.target, options, (progress, generated), notes)
    report = scored(test.pairs, translations, direction.target, other)
    title = f"{model.name}, {direction}," if len(model.directions) > 1 else model.name
    main = {score.name.lower(): score.value for score in report.scores[:1]}
    record = {**main, **asdict(report), "blank": test.blank, "too_long": too_long}
    return Evaluation(tuple(_lines(report, title, against)), record, tuple(notes))


def _other_system(
    location: Path, direction: Direction, test: HeldOutPairs, device: torch.device
) -> TranslationModel | list[str]:
    """The model in a folder, or the translations in a file."""
    from clearhead.tasks.load import load_for

    if not location.is_file():
        other = load_for("translation", location, device)
        if direction not in other.directions:
            directions = ", ".join(map(str, other.directions))
            raise ModelError(f"{location}: translates {directions}, not {direction}; pass a model that does")
        return other
    translations = list(lines(location))
    if len(translations) != test.read:
        raise DataError(
            f"{location}: {counted(len(translations), 'line')} for {counted(test.read, 'test pair')}; "
            "one line per pair is needed"
        )
    return test.kept(translations)


def _translations(
    model: TranslationModel,
    test: HeldOutPairs,
    to: str,
    options: TranslateOptions,
    callbacks: tuple[ProgressCallback, TokenCallback],
    notes: list[str],
) -> tuple[list[str], int]:
    """A model's translations of the sources, and the number of sources that are too long for it."""
    sources = [pair.source for pair in test.pairs]
    progress, generated = callbacks
    progress(0, len(sources))
    translations = []
    for one in model.translations(sources, to, options=options):
        translations.append(one)
        generated(len(one.ids))
        progress(len(translations), len(sources))
    too_long = sum(one.too_long for one in translations)
    if too_long:
        notes.append(
            f"{model.name}: {too_long:,} of {len(translations):,} sources exceed the model's limit of "
            f"{model.max_length} tokens and count as empty translations"
        )
    return list(map(str, translations)), too_long


def _lines(report: EvaluationReport, title: str, against: Path | None) -> Iterator[str]:
    yield f"{title} on {counted(report.sentences, 'sentence')}"
    for score in report.scores:
        yield f"  {score.name:<26}{score.value:6.2f}  {score.signature}"
    yield "by source length in words"
    yield f"  {'words':<10}{'sentences':>10}{'BLEU':>8}{'chrF':>8}{'length':>8}"
    for row in report.by_length:
        scores = f"{row.bleu:8.2f}{row.chrf:8.2f}{row.length_ratio:8.2f}"
        yield f"  {row.label:<10}{row.sentences:>10,}{scores}"
    if report.comparisons:
        yield f"against {against} (95 % confidence intervals, paired bootstrap)"
    for row in report.comparisons:
        ours, theirs = (f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}]" for e in (row.ours, row.theirs))
        yield f"  {row.name:<6} {ours} against {theirs}  p = {row.p_value:.4f}"


def _evenly(items: Sequence[T], count: int) -> Sequence[T]:
    """A sample at even distances: corpora are often sorted by length."""
    every = max(1, len(items) // count)
    return items[: every * count : every]
