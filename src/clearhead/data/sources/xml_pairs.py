"""Pairs from XML, read as a stream of events, so that memory stays small."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from xml.parsers import expat

from clearhead.data.pair import Pair
from clearhead.data.sources.streams import CHUNK, open_file
from clearhead.errors import DataError
from clearhead.text.language_names import CODES_BY_THREE_LETTERS

# Elements that hold formatting codes of the program that wrote the text.
CODES = frozenset({"bpt", "ept", "ph", "it", "ut", "sub"})
# Enough bytes for the languages that a file names.
BEGINNING = 1 << 16


class XMLPairs(ABC):
    """Collects pairs from chunks of XML; a subclass knows its elements.

    Rejects entity declarations, which could expand without bound.
    """

    FORMAT: ClassVar[str]

    def __init__(self, path: Path, languages: tuple[str, str]):
        self.path, self.languages = path, languages
        self.pairs: list[Pair] = []
        self.text: list[str] | None = None
        """The text of a segment so far; None outside of segments."""
        self._inside_code = 0
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._document_type
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._entity

    @abstractmethod
    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins; the name has no prefix."""

    @abstractmethod
    def end(self, name: str, text: str) -> None:
        """An element ends; `text` is that since `begin_text`."""

    @abstractmethod
    def check(self) -> None:
        """Raises DataError at the end of a file without pairs."""

    def begin_text(self) -> None:
        """Collects the text from here on."""
        self.text, self._inside_code = [], 0

    def read(self) -> Iterator[Pair]:
        """All pairs of the file."""
        with open_file(self.path) as stream:
            while chunk := stream.read(CHUNK):
                yield from self._feed(chunk)
            yield from self._feed(b"", last=True)
        self.check()

    def _feed(self, chunk: bytes, last: bool = False) -> list[Pair]:
        """The pairs completed by this chunk."""
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            if not chunk and error.lineno == 1 and error.offset == 0:
                raise DataError(f"{self.path}: is empty; name another file") from None
            where, reason = f"{self.path}, line {error.lineno}", expat.ErrorString(error.code)
            raise DataError(f"{where}: not well-formed {self.FORMAT} ({reason}); export it again") from None
        pairs, self.pairs = self.pairs, []
        return pairs

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if self.text is not None and local in CODES:
            self._inside_code += 1
        else:
            self.start(local, attributes)

    def _end(self, name: str) -> None:
        local = name.rpartition(":")[2]
        if self.text is not None and local in CODES:
            self._inside_code -= 1
        else:
            self.end(local, "".join(self.text or ()))

    def _characters(self, text: str) -> None:
        if self.text is not None and not self._inside_code:
            self.text.append(text)

    def _document_type(self, name: str, system: str | None, public: str | None, internal: bool) -> None:
        if internal:
            self._entity(name)

    def _entity(self, name: str, *_: object) -> None:
        line = self._parser.CurrentLineNumber
        raise DataError(
            f"{self.path}, line {line}: declares XML entities ('{name}'), which could expand "
            f"without bound; export the {self.FORMAT} without them"
        )


def beginning(path: Path) -> str:
    """The first characters of a file, to look for the languages that it names."""
    with open_file(path) as stream:
        return stream.read(BEGINNING).decode("utf-8", errors="replace")


def plain_code(language: str) -> str:
    """A language code for comparisons: 'de-at' for 'de_AT' and 'deu-AT'."""
    code, hyphen, region = language.strip().casefold().replace("_", "-").partition("-")
    return CODES_BY_THREE_LETTERS.get(code, code) + hyphen + region


def is_language(code: str, wanted: str) -> bool:
    """Whether a code is the wanted one or a region of it: 'en' also matches 'en-US'."""
    code, wanted = plain_code(code), plain_code(wanted)
    return code == wanted or code.startswith(wanted + "-")
