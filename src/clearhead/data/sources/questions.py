"""Questions about texts: SQuAD's JSON, JSON Lines, and the numbered lines of bAbI."""

import json
import re
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.data.sources.columns import listed
from clearhead.data.sources.jsonl import json_lines, parse_json
from clearhead.data.sources.streams import lines, open_file, suffix
from clearhead.errors import DataError
from clearhead.text.normalize import without_surrogates

NUMBERED = re.compile(r"(\d+) (.*)")
SHAPES = '{"context": …, "question": …, "answers": […]}'


class Question(NamedTuple):
    """A question about a text, and all answers that count as right."""

    context: str
    question: str
    answers: tuple[str, ...]
    """Empty where the text does not hold an answer."""
    starts: tuple[int, ...] = ()
    """Where each answer begins in the text, if the file says so."""
    facts: tuple[int, ...] = ()
    """The lines of the text that the answer follows from, counted from 0, if the file says so."""
    group: str = ""
    """The article or story; questions about one are held out together."""


def read_questions(path: str | Path) -> Iterator[Question]:
    """The questions of a file: .json as in SQuAD, .jsonl with a text or a question per line, or bAbI."""
    file = Path(path)
    match suffix(file):
        case ".json":
            return _squad(file)
        case ".jsonl" | ".ndjson":
            return _json_lines(file)
        case _:
            return _babi(file)


def _squad(path: Path) -> Iterator[Question]:
    """Versions 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""
    with open_file(path) as stream:
        content = parse_json(stream.read(), str(path), "download it again, or name a .jsonl file")
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise DataError(f"{path}: has no list 'data' as SQuAD's files have; name another file")
    for number, article in enumerate(content["data"], start=1):
        where = f"{path}, article {number}"
        for paragraph in _list(article, "paragraphs", where):
            yield from _paragraph(paragraph, where, _field(article, "title", str, where, ""))


def _json_lines(path: Path) -> Iterator[Question]:
    for where, record in json_lines(path):
        yield from _paragraph(record, where, _field(record, "title", str, where, ""))


def _paragraph(record: Any, where: str, group: str) -> Iterator[Question]:
    """The questions about one text: a list of them, or the record itself is one."""
    context = without_surrogates(_field(record, "context", str, where))
    name = next((name for name in ("qas", "questions") if name in record), None)
    for one in _list(record, name, where) if name else [record]:
        question = without_surrogates(_field(one, "question", str, where))
        answers, starts = _answers(one, where)
        facts = tuple(fact for fact in one.get("facts") or () if isinstance(fact, int))
        yield Question(context, question, answers, starts, facts, group or context)


def _answers(record: dict[str, Any], where: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Texts and starts, from any of the usual forms: texts or objects with 'text', one or a list of them, or
    an object of two lists."""
    if record.get("is_impossible"):
        return (), ()
    found = next((record[name] for name in ("answers", "answer") if name in record), None)
    if found is None:
        raise DataError(f"{where}: no field 'answers'; it has {listed(list(record))}")
    if isinstance(found, dict) and isinstance(found.get("text", []), list):
        texts, begins = found.get("text", []), found.get("answer_start")
        begins = chain(begins if isinstance(begins, list) else [], repeat(None))
        found = [{"text": text, "answer_start": begin} for text, begin in zip(texts, begins, strict=False)]
    distinct: dict[tuple[str, int | None], None] = {}
    for one in found if isinstance(found, list) else [found]:
        one = {"text": one} if isinstance(one, str) else one
        text, start = _field(one, "text", str, where), one.get("answer_start")
        distinct[without_surrogates(text), start if isinstance(start, int) else None] = None
    answers = tuple(text for text, _ in distinct)
    starts = tuple(start for _, start in distinct if start is not None)
    return answers, starts if len(starts) == len(answers) else ()


def _babi(path: Path) -> Iterator[Question]:
    """Stories of numbered lines; a question has its answer and its supporting facts after tabs.

    The text of a question is all statements before it, one per line (Weston et al. 2015).
    """
    story: list[str] = []
    numbers: dict[str, int] = {}
    group = ""
    for number, line in enumerate(lines(path), start=1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        found = NUMBERED.fullmatch(line)
        if not found:
            raise DataError(
                f"{where}: not a numbered line of bAbI; name a .json file in SQuAD's format, or a .jsonl "
                f"file with lines of {SHAPES}"
            )
        if found[1] == "1":
            story, numbers, group = [], {}, where
        statement, *rest = found[2].split("\t")
        if not rest:
            numbers[found[1]] = len(story)
            story.append(statement.strip())
            continue
        facts = rest[1].split() if len(rest) > 1 else []
        if unknown := [fact for fact in facts if fact not in numbers]:
            raise DataError(f"{where}: supporting fact {unknown[0]} is not a statement of this story")
        known = tuple(numbers[fact] for fact in facts)
        yield Question("\n".join(story), statement.strip(), (rest[0].strip(),), (), known, group)


def _list(record: Any, name: str, where: str) -> list[Any]:
    return _field(record, name, list, where)


def _field(record: Any, name: str, kind: type, where: str, default: Any = None) -> Any:
    """A member of a JSON object, of this kind."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected a JSON object, got {json.dumps(record)[:40]}; write {SHAPES}")
    value = record.get(name, default)
    if not isinstance(value, kind):
        problem = f"'{name}' is {json.dumps(value)[:40]}" if name in record else f"no field '{name}'"
        raise DataError(f"{where}: {problem}; write {SHAPES}")
    return value
