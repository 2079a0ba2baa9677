"""A document in plain text or Markdown as blocks: prose to translate, and everything else as it is.

Only what matters to a translator is parsed; the rest of Markdown passes through unchanged.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Format = Literal["markdown", "text"]
GLUE = "\ufdd0"
"""A space at which no line may end; Unicode assigns no character to it."""
MIN_WIDTH = 40
"""Shorter lines are not taken for the lines of a wrapped paragraph."""

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_QUOTE = re.compile(r"(?: {0,3}> ?)+")
_FENCE = re.compile(r"\s*(`{3,}|~{3,}|\$\$|:{3,})")
_HEADING = re.compile(r"( {0,3}#{1,6}[ \t]+)(.*?)([ \t]*#*[ \t]*)$")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|=+[ \t]*|-+[ \t]*)$")
_ITEM = re.compile(r"([ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)(.*)$")
_DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\]]+\]:\s*\S+")
_FOOTNOTE = re.compile(r"( {0,3}\[\^[^\]]+\]:[ \t]*)(.*)$")
_DELIMITER_ROW = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_CELL = re.compile(r"((?:[^|\\`]|\\.|`[^`]*`|`)*)(\||$)")
_RAW_HTML = re.compile(r"\s*<(script|style|pre|textarea)\b|\s*(<!--)", re.IGNORECASE)
_TAGS_ONLY = re.compile(r"\s*(?:<[^<>]+>\s*)+$")
_ALERT = re.compile(r"\s*\[![A-Z]+\]\s*$")
_HARD_BREAK = re.compile(r"(?: {2,}|\\)$")
_ENDS = re.compile(r"[.!?…:;。]['\"”’»)\]*_]*\s*$")
# A word that would change the meaning of a Markdown line if it came first.
_STRUCTURAL = re.compile(r"(?:[-+*=>#|]+|\d{1,9}[.)]|`{3,}.*|~{3,}.*)$")


@dataclass(frozen=True)
class Prose:
    """A run of text to translate; with a width, it is wrapped again."""

    text: str
    width: int | None = None
    first: int = 0
    """Columns that the first line has before it."""
    prefix: str = ""
    """What comes before each further line."""
    newline: str = "\n"
    pad: int = 0
    """Fewest columns, for the cells of a table."""

    def render(self, text: str) -> str:
        """The translated text, laid out as this one was; GLUE becomes a space at which no line ends."""
        if self.width is not None:
            text = self._wrapped(text)
        return text.replace(GLUE, " ").ljust(self.pad)

    def _wrapped(self, text: str) -> str:
        """Lines as long as those of the source."""
        assert self.width is not None
        lines: list[str] = []
        line, room = "", self.width - self.first
        for word in re.split(r"[ \t]+", text):
            if not line:
                line = word
            elif len(line) + 1 + len(word) <= room or _STRUCTURAL.match(word):
                line += " " + word
            else:
                lines.append(line)
                line, room = word, self.width - len(self.prefix)
        return (self.newline + self.prefix).join([*lines, line])


Piece = str | Prose


def parse(lines: Iterable[str], format: Format = "markdown") -> Iterator[list[Piece]]:
    """The blocks of a document, given as lines with their line ends."""
    return _Parser(lines, format).blocks()


def split_lines(text: str) -> list[str]:
    """The lines of a text, with their line ends: LF, CRLF or CR."""
    found = [match[0] for match in _LINE.finditer(text)]
    return [line for line in found if line]


def source(pieces: Iterable[Piece]) -> str:
    """The text of pieces that are not translated."""
    return "".join(piece if isinstance(piece, str) else piece.render(piece.text) for piece in pieces)


def _content(line: str) -> tuple[str, str]:
    """A line without its line end, and the line end."""
    text = line.rstrip("\r\n")
    return text, line[len(text) :]


class _Parser:
    def __init__(self, lines: Iterable[str], format: Format):
        self._lines, self._format = iter(lines), format
        self._ahead: list[str] = []
        self._in_list = self._in_code = self._in_table = False

    def blocks(self) -> Iterator[list[Piece]]:
        if front := self._front_matter():
            yield [front]
        blank = True
        while (line := self._peek()) is not None:
            block = self._block(line, blank)
            text = _content(line)[0]
            blank = not _unquoted(text)[1].strip()
            yield block

    def _block(self, line: str, after_blank: bool) -> list[Piece]:
        """The block that starts with this line."""
        text = _content(line)[0]
        quote, inner = _unquoted(text)
        if not inner.strip():
            self._in_table = False
            return [self._take()]
        fence, raw = _FENCE.match(inner), _RAW_HTML.match(inner)
        if (fence or raw) and not inner[0].isspace():
            # It ends a list, so that indented lines after it are code.
            self._in_list = False
        if fence:
            return ["".join(self._until_fence(fence[1]))]
        if raw:
            return ["".join(self._until("-->" if raw[2] else f"</{raw[1].lower()}"))]
        indented = inner.startswith(("    ", "\t"))
        self._in_code = indented and not self._in_list and (after_blank or self._in_code)
        if self._in_code and self._format == "markdown":
            return [self._take()]
        if not indented:
            self._in_list = bool(_ITEM.match(inner))
        if _RULE.match(inner) or _ALERT.match(inner) or _TAGS_ONLY.match(inner) or _DEFINITION.match(inner):
            return [self._take()]
        if self._is_table(quote, inner):
            return self._table_row()
        if heading := _HEADING.match(inner):
            return self._single(quote + heading[1], heading[2], heading[3])
        return self._paragraph()

    def _front_matter(self) -> str:
        """YAML between --- and ---, or TOML between +++ and +++, with a byte order mark before it."""
        first = self._peek()
        if first is None:
            return ""
        mark = "\ufeff" if first.startswith("\ufeff") else ""
        self._ahead[0] = first.removeprefix(mark)
        fence = _content(self._ahead[0])[0].rstrip()
        if fence not in ("---", "+++"):
            if not self._ahead[0]:
                self._ahead.pop(0)
            return mark
        # Without an end, or with an empty line first, it is a rule.
        taken = [self._take()]
        while (line := self._peek()) is not None and len(taken) < 200:
            taken.append(self._take())
            if _content(line)[0].rstrip() in (fence, "..."):
                return mark + "".join(taken)
            if len(taken) == 2 and not line.strip():
                break
        self._ahead[:0] = taken[1:]
        return mark + taken[0]

    def _until_fence(self, fence: str) -> Iterator[str]:
        yield self._take()
        while (line := self._peek()) is not None:
            inner = _unquoted(_content(line)[0])[1].strip()
            yield self._take()
            if inner.startswith(fence) and not inner.strip(fence[0]):
                return

    def _until(self, end: str) -> Iterator[str]:
        while (line := self._peek()) is not None:
            yield self._take()
            if end in line.lower():
                return

    def _is_table(self, quote: str, inner: str) -> bool:
        """A row starts with |; without it, a row of dashes must be above or below."""
        if inner.lstrip().startswith("|"):
            return True
        if self._format == "text" or "|" not in inner:
            self._in_table = False
            return False
        following = self._peek(1)
        below = _unquoted(_content(following)[0])[1] if following is not None else ""
        self._in_table = self._in_table or (_DELIMITER_ROW.match(below) is not None and "|" in below)
        return self._in_table

    def _table_row(self) -> list[Piece]:
        text, newline = _content(self._take())
        quote, inner = _unquoted(text)
        if _DELIMITER_ROW.match(inner):
            return [text + newline]
        pieces: list[Piece] = [quote]
        for match in _CELL.finditer(inner):
            cell = match[1]
            before, body, after = _stripped(cell)
            # A cell keeps its width, so that columns stay aligned as far as the words allow.
            padded = bool(match[2] and after and not after.strip(" "))
            prose = Prose(body, pad=len(body) + len(after) - 1 if padded else 0) if body else ""
            pieces += [before, prose, " " if padded else after, match[2]]
        return _merged([*pieces, newline])

    def _single(self, before: str, body: str, after: str) -> list[Piece]:
        """A line of its own."""
        newline = _content(self._take())[1]
        left, body, right = _stripped(body)
        return _merged([before + left, Prose(body) if body else "", right + after + newline])

    def _paragraph(self) -> list[Piece]:
        """A paragraph or list item: lines up to the next block, joined where they are wrapped."""
        first = self._take()
        rows = [_row(first)]
        while (line := self._peek()) is not None and self._continues(rows[-1], line):
            rows.append(_row(self._take(), continues=True))
        pieces: list[Piece] = []
        for group in _wrapped_groups(rows):
            pieces += _joined(group)
        return _merged(pieces)

    def _continues(self, row: "_Row", line: str) -> bool:
        """Whether a line belongs to the same paragraph as the row before it."""
        text = _content(line)[0]
        quote, inner = _unquoted(text)
        starts = _FENCE, _RAW_HTML, _HEADING, _RULE, _ITEM, _FOOTNOTE, _DEFINITION, _TAGS_ONLY
        return bool(
            inner.strip()
            and quote.count(">") == row.quote.count(">")
            and not any(pattern.match(inner) for pattern in starts)
            and not inner.lstrip().startswith("|")
        )

    def _peek(self, further: int = 0) -> str | None:
        while len(self._ahead) <= further:
            line = next(self._lines, None)
            if line is None:
                return None
            self._ahead.append(line)
        return self._ahead[further]

    def _take(self) -> str:
        return self._ahead.pop(0)


@dataclass(frozen=True)
class _Row:
    """A line of a paragraph."""

    quote: str
    before: str
    body: str
    after: str
    newline: str

    @property
    def width(self) -> int:
        return len(self.quote) + len(self.before) + len(self.body)


def _row(line: str, continues: bool = False) -> _Row:
    text, newline = _content(line)
    quote, inner = _unquoted(text)
    marker = None if continues else _ITEM.match(inner) or _FOOTNOTE.match(inner)
    left, body, after = _stripped(marker[2] if marker else inner)
    return _Row(quote, (marker[1] if marker else "") + left, body, after, newline)


def _wrapped_groups(rows: list[_Row]) -> Iterator[list[_Row]]:
    """The lines of a paragraph, grouped into those that were one line before it was wrapped.

    A line was wrapped if the first word of the next one had no room on it. Other line ends are kept: those of
    verses, addresses and texts with a sentence per line.
    """
    width = max(row.width for row in rows)
    pairs = list(pairwise(rows))
    full = all(row.width + 1 + len(after.body.split()[0]) > width for row, after in pairs)
    sentences = all(_ENDS.search(row.body) for row in rows)
    group = [rows[0]]
    for row, after in pairs:
        hard = _HARD_BREAK.search(row.body + row.after)
        goes_on = after.body[0].islower() and not _ENDS.search(row.body)
        if width >= MIN_WIDTH and not hard and ((full and not sentences) or goes_on):
            group.append(after)
        else:
            yield group
            group = [after]
    yield group


def _joined(group: list[_Row]) -> list[Piece]:
    """The pieces of lines that are translated together."""
    head, last = group[0], group[-1]
    before = head.quote + head.before
    text = " ".join(row.body for row in group)
    if len(group) == 1:
        return [before, Prose(text) if text else "", last.after + last.newline]
    width = max(row.width for row in group)
    prefix = group[1].quote + group[1].before
    prose = Prose(text, width, len(before), prefix, head.newline)
    return [before, prose, last.after + last.newline]


def _unquoted(text: str) -> tuple[str, str]:
    """The marks of a block quote, and the rest of the line."""
    match = _QUOTE.match(text)
    return (match[0], text[match.end() :]) if match else ("", text)


def _stripped(text: str) -> tuple[str, str, str]:
    """White space, the text, and white space."""
    body = text.strip()
    start = text.index(body) if body else len(text)
    return text[:start], body, text[start + len(body) :]


def _merged(pieces: list[Piece]) -> list[Piece]:
    """The pieces, with neighbouring verbatim ones joined."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        elif piece:
            merged.append(piece)
    return merged
