"""Translation memories (TMX) as pairs, read as a stream."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns, named_languages
from clearhead.data.sources.streams import CHUNK, open_file
from clearhead.errors import DataError

# Elements that hold formatting codes of the program that wrote the text.
CODES = frozenset({"bpt", "ept", "ph", "it", "ut", "sub"})
# Enough bytes for the first units.
BEGINNING = 1 << 16


def tmx_languages(path: Path) -> tuple[str, str] | None:
    with open_file(path) as stream:
        beginning = stream.read(BEGINNING).decode("utf-8", errors="replace")
    return named_languages(re.findall(r"<tuv[^>]*\blang\s*=\s*[\"']([A-Za-z]+)", beginning))


def read_tmx(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """One pair per unit that holds both languages; 'en' also matches 'en-US'. Columns do not apply."""
    units = Units(path, languages)
    with open_file(path) as stream:
        while chunk := stream.read(CHUNK):
            yield from units.feed(chunk)
        yield from units.feed(b"", last=True)
    if not units.found:
        seen = ", ".join(sorted(units.languages_seen)) or "none"
        raise DataError(f"{path}: no unit holds both {languages[0]} and {languages[1]}; the file has {seen}")


class Units:
    """Collects translation units from chunks of XML.

    Uses the events of expat rather than a tree, so memory stays small, and rejects entity declarations, which
    could expand without bound.
    """

    def __init__(self, path: Path, languages: tuple[str, str]):
        self.path, self.languages = path, languages
        self.found = False
        self.languages_seen: set[str] = set()
        self._pairs: list[Pair] = []
        self._segments: dict[str, str] = {}
        self._language = ""
        self._text: list[str] | None = None
        self._inside_code = 0
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._document_type
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._entity

    def feed(self, chunk: bytes, last: bool = False) -> list[Pair]:
        """The pairs completed by this chunk."""
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            if not chunk and error.lineno == 1 and error.offset == 0:
                raise DataError(f"{self.path}: is empty; name another file") from None
            reason = expat.ErrorString(error.code)
            raise DataError(f"{self.path}, line {error.lineno}: not well-formed TMX ({reason})") from None
        pairs, self._pairs = self._pairs, []
        return pairs

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "tu":
                self._segments = {}
            case "tuv":
                language = attributes.get("xml:lang") or attributes.get("lang") or ""
                self._language = language.casefold().replace("_", "-")
                self.languages_seen.add(self._language)
            case "seg":
                self._text, self._inside_code = [], 0
            case _ if name in CODES:
                self._inside_code += 1

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._inside_code:
            self._text.append(text)

    def _end(self, name: str) -> None:
        match name:
            case "seg" if self._text is not None:
                self._segments.setdefault(self._language, "".join(self._text))
                self._text = None
            case "tu":
                source, target = (self._segment(language) for language in self.languages)
                if source is not None and target is not None:
                    self.found = True
                    self._pairs.append(Pair(source, target))
            case _ if name in CODES:
                self._inside_code -= 1

    def _segment(self, language: str) -> str | None:
        wanted = language.casefold().replace("_", "-")
        if wanted in self._segments:
            return self._segments[wanted]
        return next((text for code, text in self._segments.items() if code.startswith(wanted + "-")), None)

    def _document_type(self, name: str, system: str | None, public: str | None, internal: bool) -> None:
        if internal:
            self._entity(name)

    def _entity(self, name: str, *_: object) -> None:
        line = self._parser.CurrentLineNumber
        raise DataError(
            f"{self.path}, line {line}: declares XML entities ('{name}'), which could expand "
            "without bound; export the TMX without them"
        )
