"""XLIFF 1.2 and 2 as pairs: the files in which translators exchange texts."""

import re
from collections.abc import Iterator
from pathlib import Path

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns, named_languages
from clearhead.data.sources.left_out import report_left_out
from clearhead.data.sources.xml_pairs import XMLPairs, beginning, is_language
from clearhead.errors import DataError
from clearhead.wording import counted

# The elements that hold a source and its target: of version 1.2, and of version 2.
UNITS = ("trans-unit", "segment")
# States of a target that is not a translation yet.
UNTRANSLATED = frozenset({"initial", "new", "needs-translation"})


def xliff_languages(path: Path) -> tuple[str, str] | None:
    text, found = beginning(path), []
    for name in ("srcLang|source-language", "trgLang|target-language"):
        found += re.findall(rf"\b(?:{name})\s*=\s*[\"']([A-Za-z]+)", text)[:1]
    return named_languages(found)


def read_xliff(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """One pair per unit (1.2) or segment (2) with a translation, in the direction of `languages`.

    Columns do not apply.
    """
    return TransUnits(path, languages).read()


class TransUnits(XMLPairs):
    """The units of an XLIFF file; alternatives and matches inside a unit are left out."""

    FORMAT = "XLIFF"

    def __init__(self, path: Path, languages: tuple[str, str]):
        super().__init__(path, languages)
        self.found, self.untranslated = 0, 0
        self.directions_seen: dict[str, None] = {}
        self._elements: list[str] = []
        self._of_root, self._of_file = ("", ""), ("", "")
        self._sides: dict[str, str] = {}
        self._state = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._elements[-1] if self._elements else ""
        self._elements.append(name)
        match name:
            case "xliff":
                self._of_root = attributes.get("srcLang", ""), attributes.get("trgLang", "")
            case "file":
                own = attributes.get("source-language", ""), attributes.get("target-language", "")
                self._of_file = own if any(own) else self._of_root
            case "trans-unit" | "segment":
                self._sides, self._state = {}, attributes.get("state", "")
            case "source" | "target" if parent in UNITS:
                self._state = attributes.get("state", self._state)
                self.begin_text()

    def end(self, name: str, text: str) -> None:
        self._elements.pop()
        parent = self._elements[-1] if self._elements else ""
        if name in ("source", "target") and parent in UNITS:
            self._sides[name] = text
            self.text = None
        elif name in UNITS:
            self._end_unit()

    def check(self) -> None:
        source, target = self.languages
        if self.found and self.untranslated:
            report_left_out(str(self.path), {"untranslated": self.untranslated})
        if self.found:
            return
        if self.untranslated:
            units = counted(self.untranslated, "unit")
            raise DataError(f"{self.path}: has {units}, but no translations; name a file with targets")
        seen = ", ".join(self.directions_seen)
        raise DataError(
            f"{self.path}: translates {seen}, not {source} to {target}; name its languages (train: --from, "
            "--to)"
            if seen
            else f"{self.path}: has no units to translate; name another file"
        )

    def _end_unit(self) -> None:
        source, target = self._sides.get("source", ""), self._sides.get("target", "")
        pair = self._directed(Pair(source, target))
        if pair is None or not source.strip():
            return
        if not target.strip() or self._state in UNTRANSLATED:
            self.untranslated += 1
        else:
            self.found += 1
            self.pairs.append(pair)

    def _directed(self, pair: Pair) -> Pair | None:
        """The pair in the direction of the languages; None if the file has others."""
        ours, theirs = self._of_file
        for wanted, found in ((self.languages, pair), (self.languages[::-1], pair.swapped)):
            named = zip((ours, theirs), wanted, strict=True)
            if all(not code or is_language(code, language) for code, language in named):
                return found
        self.directions_seen[f"{ours or '?'} to {theirs or '?'}"] = None
        return None
