"""How well a language model foresees text that it has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from clearhead.checkpoint import SETTINGS
from clearhead.data.build import cached_texts
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.pair import Pair
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.columns import Columns, select_columns
from clearhead.data.sources.documents import check_texts, read_documents, texts_hash
from clearhead.data.sources.documents import files as paths_of
from clearhead.data.sources.jsonl import read_fields
from clearhead.data.sources.streams import suffix
from clearhead.data.store import PairStore, TextStore
from clearhead.errors import DataError
from clearhead.evaluation.perplexity import Perplexity, perplexity
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.language.recipe import ANSWER, PROMPT
from clearhead.tasks.language.task import VALIDATION
from clearhead.tasks.translation.data import cache_folder
from clearhead.text.tokenizer import PAD, UNK


@dataclass(frozen=True)
class PerplexityReport:
    """A measurement, and what there was to measure on."""

    measured: Perplexity
    documents: int
    unknown: int
    """Tokens of the text that are not in the model's vocabulary."""


def unseen_text(named: Sequence[str], folder: Path) -> list[str]:
    """The files to measure on: those named, or what training kept from the model in the folder."""
    if named:
        check_texts(named)
        return list(named)
    kept = folder / VALIDATION
    if not kept.exists():
        raise DataError(f"{folder}: no text is kept beside this model; name a file with --text")
    return [str(kept)]


def foresee(
    language: LanguageModel,
    files: Sequence[str],
    field: str | None = None,
    stride: int | None = None,
    follow: ProgressCallback = ignore_progress,
    follow_reading: ProgressCallback = ignore_progress,
) -> PerplexityReport:
    """What a model thinks of the text in files; long ones are read from the disk as needed."""
    with track_progress((path for file in files for path in paths_of(file)), follow_reading):
        store, size = _stored(language, files, field)
    # The sign after a document is never asked for: any will do.
    documents = DelimitedDocuments(store, (language.lead[0], PAD) if language.lead else None)
    if not (documents.lengths > (2 if documents.delimiters else 1)).any():
        raise DataError(f"{' and '.join(files)}: too short to foresee anything in it; give more text")
    sides = (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
    unknown = sum(int((side.ids == UNK).sum()) for side in sides) if language.tokenizer.special_tokens else 0
    return PerplexityReport(perplexity(language.model, documents, size, stride, follow), len(store), unknown)


def _stored(
    language: LanguageModel, files: Sequence[str], field: str | None
) -> tuple[TextStore | PairStore, int]:
    """The text in files as ids, and the bytes that are asked for: of prompts with answers, the answers'."""
    tokenizer, pairs = language.tokenizer, [] if field else _answers(language, [Path(file) for file in files])
    if pairs:
        prompts, answers = ([pair[side] for pair in pairs] for side in (0, 1))
        store = PairStore.of(tokenizer.encode_batch(prompts), tokenizer.encode_batch(answers))
        return store, sum(len(answer.encode()) for answer in answers)
    if next(iter(read_documents(files, field)), None) is None:
        raise DataError(f"{' and '.join(files)}: holds no text; name another file")
    content = {"files": [texts_hash(file) for file in files], "field": field, "part": "evaluated"}
    store = cached_texts(cache_folder(), content, lambda: read_documents(files, field), tokenizer)
    return store, store.meta["bytes"]


def _answers(language: LanguageModel, files: Sequence[Path]) -> list[Pair]:
    """Prompts with answers as the model reads them; nothing, where a file begins with anything else."""
    if [file.name for file in files] == [VALIDATION] and (files[0].parent / SETTINGS).is_file():
        # What a run has kept is in its template already.
        return _pairs(files[0])
    if not language.frame or any(suffix(file) not in (".jsonl", ".ndjson") for file in files):
        return []
    found = [_pairs(file, language.columns) for file in files]
    if not all(found):
        return []
    before, after = language.frame, language.ending
    return [Pair(before.format(prompt=prompt), answer + after) for pairs in found for prompt, answer in pairs]


def _pairs(file: Path, columns: Columns | None = None) -> list[Pair]:
    def choose(have: list[str]) -> Sequence[str]:
        names = select_columns(have, (PROMPT, ANSWER), columns)
        return names if {*names} <= {*have} else ()

    records = read_fields(file, choose)
    first = next(records, ())
    return [Pair(*record) for record in chain([first], records)] if first else []
