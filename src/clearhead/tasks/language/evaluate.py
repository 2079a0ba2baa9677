"""Perplexity of a language model on held-out text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from clearhead.checkpoint import SETTINGS
from clearhead.data.build import cached_texts
from clearhead.data.cache import cache_folder
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.pair import Pair
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.columns import Columns, select_columns
from clearhead.data.sources.documents import check_texts, read_documents, texts_hash
from clearhead.data.sources.documents import files as paths_of
from clearhead.data.sources.jsonl import read_fields
from clearhead.data.sources.prompts import ANSWER, PROMPT, prompt_form, read_prompts
from clearhead.data.sources.streams import suffix
from clearhead.data.store import PairStore, TextStore
from clearhead.errors import DataError
from clearhead.evaluation.perplexity import Perplexity, perplexity
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.language.recipe import VALIDATION
from clearhead.text.tokenizer import PAD, UNK
from clearhead.wording import counted


@dataclass(frozen=True)
class PerplexityReport:
    """The perplexity, and the text that it was measured on."""

    measured: Perplexity
    documents: int
    unknown: int
    """Number of tokens outside the model's vocabulary."""


def held_out_text(named: Sequence[str], folder: Path) -> list[str]:
    """The named files, or the text that training held out, in the model's folder."""
    if named:
        check_texts(named)
        return list(named)
    kept = folder / VALIDATION
    if not kept.exists():
        raise DataError(f"{folder}: this folder has no held-out text; name a file with --text")
    return [str(kept)]


def evaluate(
    language: LanguageModel,
    folder: Path,
    *,
    text: Sequence[str] = (),
    field: str | None = None,
    stride: int | None = None,
    progress: ProgressCallback = ignore_progress,
    reading: ProgressCallback = ignore_progress,
) -> Evaluation:
    """Perplexity on text, or on that held out in the model's folder."""
    report = text_perplexity(language, held_out_text(text, folder), field, stride, progress, reading)
    measured, documents = report.measured, counted(report.documents, "document")
    lines = (
        f"{language.name} on {measured.tokens:,} tokens ({measured.bytes:,} bytes) in {documents}",
        f"  loss per token  {measured.loss:.4f}",
        f"  perplexity      {measured.perplexity:.3f}",
        f"  bits per byte   {measured.bits_per_byte:.4f}",
        f"  (window {measured.window} tokens, stride {measured.stride})",
    )
    unknown = f"{report.unknown:,} characters of the text are not in the model's vocabulary"
    record = {**measured.record(), "documents": report.documents, "unknown": report.unknown}
    return Evaluation(lines, record, (unknown,) if report.unknown else ())


def text_perplexity(
    language: LanguageModel,
    files: Sequence[str],
    field: str | None = None,
    stride: int | None = None,
    progress: ProgressCallback = ignore_progress,
    reading: ProgressCallback = ignore_progress,
) -> PerplexityReport:
    """The perplexity of the text in files; `progress` counts windows, `reading` counts bytes."""
    with track_progress((path for file in files for path in paths_of(file)), reading):
        store, size = _stored(language, files, field)
    # The end token is never predicted, so any id will do.
    start = language.prompt_format.start
    documents = DelimitedDocuments(store, (start[0], PAD) if start else None)
    if not (documents.lengths > (2 if documents.delimiters else 1)).any():
        raise DataError(f"{' and '.join(files)}: too short to predict anything; give more text")
    sides = (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
    unknown = sum(int((side.ids == UNK).sum()) for side in sides) if language.tokenizer.special_tokens else 0
    return PerplexityReport(
        perplexity(language.model, documents, size, stride, progress), len(store), unknown
    )


def _stored(
    language: LanguageModel, files: Sequence[str], field: str | None
) -> tuple[TextStore | PairStore, int]:
    """The token store of files, and the bytes of their text, or of the answers if they hold prompts."""
    tokenizer, pairs = language.tokenizer, [] if field else _answers(language, [Path(file) for file in files])
    if pairs:
        prompts, answers = ([pair[side] for pair in pairs] for side in (0, 1))
        store = PairStore.of(tokenizer.encode_batch(prompts), tokenizer.encode_batch(answers))
        return store, sum(len(answer.encode()) for answer in answers)
    if next(iter(read_documents(files, field)), None) is None:
        raise DataError(f"{' and '.join(files)}: contains no text; name another file")
    content = {"files": [texts_hash(file) for file in files], "field": field, "part": "evaluated"}
    store = cached_texts(cache_folder(), content, lambda: read_documents(files, field), tokenizer)
    return store, store.meta["bytes"]


def _answers(language: LanguageModel, files: Sequence[Path]) -> list[Pair]:
    """Prompts with answers in the model's template; empty if a file holds anything else."""
    form = language.prompt_format
    if [file.name for file in files] == [VALIDATION] and (files[0].parent / SETTINGS).is_file():
        # The held-out text of a run is already in the template.
        return _pairs(files[0])
    if not form.prefix:
        return []
    found = [_pairs(file, form.columns) for file in files]
    if not all(found):
        return []
    before, after = form.prefix, form.suffix
    return [Pair(before.format(prompt=prompt), answer + after) for pairs in found for prompt, answer in pairs]


def _pairs(file: Path, columns: Columns | None = None) -> list[Pair]:
    """The prompts of a file with their answers; empty if it holds none."""
    if columns is None or suffix(file) not in (".jsonl", ".ndjson"):
        return list(read_prompts(file)) if prompt_form(file) else []

    def choose(have: list[str]) -> Sequence[str]:
        names = select_columns(str(file), have, (PROMPT, ANSWER), columns)
        return names if {*names} <= {*have} else ()

    records = read_fields(file, choose)
    first = next(records, ())
    return [Pair(*record) for record in chain([first], records)] if first else []
