"""Lines that keep their numbers, URLs and other items, as documents do."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from clearhead.tasks.translation.chunks import in_chunks
from clearhead.tasks.translation.documents import DocumentTranslator
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.tasks.translation.search import Translation
from clearhead.text.capitals import in_capitals
from clearhead.text.inline import MARKS, find_parts, take_apart
from clearhead.text.placeholders import Written

# Only letters, spaces and common punctuation: nothing that could get lost.
_PLAIN = re.compile(r"[^\W\d_]*(?:[\s.,;:!?'’\"„“”«»()–—-]+[^\W\d_]+)*[\s.,;:!?'’\"„“”«»()–—-]*")


def with_items(
    translations: Iterable[Translation],
    model: TranslationModel,
    to: str | None,
    options: TranslateOptions,
    batch_size: int,
) -> Iterator[Translation]:
    """The translations; a line that lost an item, or that is in capitals, is translated as documents are.

    Scores stay those of the model's own translation.
    """
    documents = DocumentTranslator(model, to, format="text", options=options)
    for chunk, problem in in_chunks(iter(translations), batch_size):
        again = [number for number, one in enumerate(chunk) if not one.too_long and _needs_care(one)]
        for number, better in zip(again, documents.lines([chunk[n].source for n in again]), strict=True):
            chunk[number] = replace(chunk[number], text=better.text)
        yield from chunk
        if problem:
            raise problem


def _needs_care(translation: Translation) -> bool:
    """Whether a translation lost an item or a mark, or its source is in capitals."""
    source = translation.source
    if _PLAIN.fullmatch(source) and source.upper() != source:
        return False
    parts = find_parts(source)
    items = tuple(part for part in parts if part.role not in MARKS)
    marks = (part.text for part in parts if part.role in MARKS)
    is_lost = bool(Written(source, (), items).missing(translation.text))
    return (
        is_lost
        or any(mark not in translation.text for mark in marks)
        or in_capitals(take_apart(source, parts))
    )
