"""How well a language model foresees text that it has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.data.building import cached_texts
from clearhead.data.documents import check_texts, read_documents, texts_hash
from clearhead.data.enclosed import Documents
from clearhead.errors import DataError
from clearhead.evaluation.perplexity import Perplexity, perplexity
from clearhead.tasks.language import LanguageModel
from clearhead.tasks.modelling import VALIDATION
from clearhead.tasks.preparation import cache_folder
from clearhead.text.tokenizer import PAD, UNKNOWN


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
    content = {"files": [texts_hash(file) for file in files], "field": field, "part": "evaluated"}
    store = cached_texts(cache_folder(), content, lambda: read_documents(files, field), language.tokenizer)
    # The sign after a document is never asked for: any will do.
    documents = Documents(store, (language.lead[0], PAD) if language.lead else None)
    if not (documents.lengths > (2 if documents.signs else 1)).any():
        raise DataError(f"{' and '.join(files)}: too short to foresee anything in it; give more text")
    unknown = int((store.documents.ids == UNKNOWN).sum()) if language.tokenizer.specials else 0
    measured = perplexity(language.model, documents, store.meta["bytes"], stride)
    return Foreseen(measured, len(store), unknown)
