"""Prompts with answers from files."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from clearhead.data.pair import Pair
from clearhead.data.sources import READERS
from clearhead.data.sources.columns import TEXT_FIELDS, Columns
from clearhead.data.sources.conversations import ANSWER, PROMPT, PromptForm, form_of
from clearhead.data.sources.corpus import read_pairs
from clearhead.data.sources.streams import suffix

__all__ = ["ANSWER", "PROMPT", "prompt_form", "read_prompts", "usual_template"]


def read_prompts(path: str | Path, columns: Columns | None = None) -> Iterator[Pair]:
    """The prompts of a file with their answers: from a chat, an instruction, or two columns."""
    form, reader = None if columns else prompt_form(path), READERS.get(suffix(Path(path)))
    if form is None or reader is None or reader.records is None:
        return read_pairs(path, (PROMPT, ANSWER), columns)
    return chain.from_iterable(form.pairs(*record) for record in reader.records(Path(path)))


def prompt_form(path: str | Path) -> PromptForm | None:
    """How a file holds prompts with answers, by its first record; None if it does not."""
    names = _first_names(Path(path))
    return form_of(names)


def usual_template(path: str | Path) -> str | None:
    """The template that the prompts of a file are usually set into; None if it holds text, or neither."""
    names = _first_names(Path(path))
    form = form_of(names)
    return form.template if form and not {*TEXT_FIELDS} & {*names} else None


def _first_names(path: Path) -> list[str]:
    reader = READERS.get(suffix(path))
    first = next(reader.records(path), None) if reader and reader.records and path.is_file() else None
    return list(first[1]) if first else []
