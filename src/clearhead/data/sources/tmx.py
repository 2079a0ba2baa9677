"""Translation memories (TMX) as pairs."""

import re
from collections.abc import Iterator
from pathlib import Path

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns, named_languages
from clearhead.data.sources.xml_pairs import XMLPairs, beginning, is_language, plain_code
from clearhead.errors import DataError


def tmx_languages(path: Path) -> tuple[str, str] | None:
    return named_languages(re.findall(r"<tuv[^>]*\blang\s*=\s*[\"']([A-Za-z]+)", beginning(path)))


def read_tmx(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """One pair per unit that holds both languages; 'en' also matches 'en-US'. Columns do not apply."""
    return TranslationUnits(path, languages).read()


class TranslationUnits(XMLPairs):
    """The units of a translation memory; each has a segment per language."""

    FORMAT = "TMX"

    def __init__(self, path: Path, languages: tuple[str, str]):
        super().__init__(path, languages)
        self.found = False
        self.languages_seen: set[str] = set()
        self._segments: dict[str, str] = {}
        self._language = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "tu":
                self._segments = {}
            case "tuv":
                self._language = plain_code(attributes.get("xml:lang") or attributes.get("lang") or "")
                self.languages_seen.add(self._language)
            case "seg":
                self.begin_text()

    def end(self, name: str, text: str) -> None:
        match name:
            case "seg":
                self._segments.setdefault(self._language, text)
                self.text = None
            case "tu":
                source, target = (self._segment(language) for language in self.languages)
                if source is not None and target is not None:
                    self.found = True
                    self.pairs.append(Pair(source, target))

    def check(self) -> None:
        if not self.found:
            source, target = self.languages
            seen = ", ".join(sorted(self.languages_seen)) or "none"
            raise DataError(f"{self.path}: no unit holds both {source} and {target}; the file has {seen}")

    def _segment(self, language: str) -> str | None:
        exact = self._segments.get(plain_code(language))
        regions = (text for code, text in self._segments.items() if is_language(code, language))
        return next(regions, None) if exact is None else exact
