"""How well a language model foresees text that it has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from clearhead.data.building import cached_texts
from clearhead.data.documents import check_texts, read_documents, texts_hash
from clearhead.data.enclosed import Enclosed
from clearhead.data.pair import Pair
from clearhead.data.readers import read_fields
from clearhead.data.store import PairStore, TextStore
from clearhead.errors import DataError
from clearhead.evaluation.perplexity import Perplexity, perplexity
from clearhead.tasks.language import LanguageModel
from clearhead.tasks.modelling import VALIDATION
from clearhead.tasks.preparation import cache_folder
from clearhead.tasks.textrecipe import ANSWER, PROMPT
from clearhead.text.tokenizer import PAD, UNKNOWN, Tokenizer


@dataclass(frozen=True)
class Foreseen:
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
    language: LanguageModel, files: Sequence[str], field: str | None = None, stride: int | None = None
) -> Foreseen:
    """What a model thinks of the text in files; long ones are read from the disk as needed."""
    store, size = _stored(language.tokenizer, files, field)
    # The sign after a document is never asked for: any will do.
    documents = Enclosed(store, (language.lead[0], PAD) if language.lead else None)
    if not (documents.lengths > (2 if documents.signs else 1)).any():
        raise DataError(f"{' and '.join(files)}: too short to foresee anything in it; give more text")
    sides = (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
    unknown = sum(int((side.ids == UNKNOWN).sum()) for side in sides) if language.tokenizer.specials else 0
    return Foreseen(perplexity(language.model, documents, size, stride), len(store), unknown)


def _stored(
    tokenizer: Tokenizer, files: Sequence[str], field: str | None
) -> tuple[TextStore | PairStore, int]:
    """The text in files as ids, and the bytes that are asked for: of prompts with answers, the answers'."""
    kept = not field and [Path(file).name for file in files] == [VALIDATION]
    if kept and (pairs := _answers(Path(files[0]))):
        prompts, answers = ([pair[side] for pair in pairs] for side in (0, 1))
        store = PairStore.of(tokenizer.encode_batch(prompts), tokenizer.encode_batch(answers))
        return store, sum(len(answer.encode()) for answer in answers)
    if next(iter(read_documents(files, field)), None) is None:
        raise DataError(f"{' and '.join(files)}: holds no text; name another file")
    content = {"files": [texts_hash(file) for file in files], "field": field, "part": "evaluated"}
    store = cached_texts(cache_folder(), content, lambda: read_documents(files, field), tokenizer)
    return store, store.meta["bytes"]


def _answers(kept: Path) -> list[Pair]:
    """What a run for prompts with answers has kept; nothing, where the file begins with anything else."""
    pair = (PROMPT, ANSWER)
    records = read_fields(kept, lambda have: pair if {*have} == {*pair} else ())
    first = next(records, ())
    return [Pair(*record) for record in chain([first], records)] if first else []
