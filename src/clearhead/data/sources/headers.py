"""Whether the first row of a table is a header, and which columns hold text."""

import re
from collections.abc import Sequence
from typing import Literal

from clearhead.data.sources.columns import GENERIC, NO_TEXT, PAIR_NAMES, UNAMBIGUOUS_SPELLINGS, language_of

Verdict = Literal["header", "unclear", "data"]
# Rows that decide whether a table has a header.
PEEKED = 1000
# With fewer rows below it, a row of single words is not suspected to be a header.
ENOUGH_ROWS = 5
# The largest share of rows of single words below a header of single words.
NAMES_BELOW = 0.1
NAME = re.compile(r"[^\W\d_][\w.\- ]{0,28}(?<![.\- ])|[^\W\d_]")
NUMBER = re.compile(r"[-+]?[\d.,:/-]*\d[\d.,:/%-]*")

# Words that usually name a column.
USUAL = GENERIC | NO_TEXT | {name for names in PAIR_NAMES for name in names}


def detect_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> Verdict:
    """Whether a row is the header of the rows below it.

    It is one if its cells are names, and a column below holds only numbers or a name has an underscore. A
    row of single words above rows of longer texts may be one, unless its words are in the texts below, or
    it has no usual name of a column, stands above no labels, and most rows are short phrases too.
    """
    cells = [cell.strip() for cell in first]
    names = [cell for cell in cells if cell]
    if not names or len({*names}) < len(names) or not all(map(_is_name, names)):
        return "data"
    columns = [_column(rows, number) for number in range(len(cells))]
    if any(column and all(map(NUMBER.fullmatch, column)) for column in columns):
        return "header"
    if len(names) < len(cells):
        return "data"
    each = zip(cells, columns, strict=True)
    if any("_" in cell and not any("_" in one for one in column) for cell, column in each):
        return "header"
    alike = sum(all(map(_is_single_name, row)) for row in rows)
    single = all(map(_is_single_name, cells))
    if not single or len(rows) < ENOUGH_ROWS or alike >= NAMES_BELOW * len(rows):
        return "data"
    if all(map(_is_word_of, cells, columns)):
        return "data"
    above_labels = [*map(_is_above_labels, cells, columns)]
    if any(map(_is_usual, cells)) or (any(above_labels) and not all(above_labels)):
        return "unclear"
    phrases = sum(all(_is_name(cell.strip()) for cell in row) for row in rows)
    return "unclear" if 2 * phrases < len(rows) else "data"


def likely_text_columns(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The two columns that most likely hold text: the longest that vary and are not numbers."""
    width = max(map(len, rows), default=2)
    columns = [_column(rows, number) for number in range(width)]
    texts = [number for number in range(width) if holds_text(columns[number])]
    texts = texts if len(texts) > 1 else list(range(width))
    two = sorted(texts, key=lambda number: -sum(map(len, columns[number])))[:2]
    first, second = sorted(two) if width > 1 else (0, 1)
    return first, second


def holds_text(cells: Sequence[str]) -> bool:
    """Whether most cells of a column are not numbers, and not all of many are the same."""
    numbers = sum(bool(NUMBER.fullmatch(cell)) for cell in cells)
    return 2 * numbers < len(cells) and (len(cells) < ENOUGH_ROWS or len({*cells}) > 1)


def _column(rows: Sequence[Sequence[str]], number: int) -> list[str]:
    """The cells of a column that are not blank."""
    return [row[number].strip() for row in rows if len(row) > number and row[number].strip()]


def _is_name(cell: str) -> bool:
    """Whether a cell could be the name of a column."""
    return (bool(NAME.fullmatch(cell)) and cell.count(" ") < 3) or cell.casefold() in NO_TEXT


def _is_usual(cell: str) -> bool:
    """Whether a cell has a word that usually names a column."""
    words = re.findall(r"[^\W_]+", cell.casefold())
    return not USUAL.isdisjoint(words) or language_of(cell, UNAMBIGUOUS_SPELLINGS) is not None


def _is_above_labels(cell: str, column: Sequence[str]) -> bool:
    """Whether a column repeats few values, and the cell is none of them."""
    return 2 * len({*column}) <= len(column) and cell not in column


def _is_word_of(word: str, column: Sequence[str]) -> bool:
    """Whether a word occurs in texts of a column."""
    found = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
    return any(map(found.search, column))


def _is_single_name(cell: str) -> bool:
    """Whether a cell is a single word, or names a column by a usual word."""
    return _is_name(cell.strip()) and (
        " " not in cell.strip() or not GENERIC.isdisjoint(cell.lower().split())
    )
