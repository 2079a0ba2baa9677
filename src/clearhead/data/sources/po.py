"""Message catalogues of gettext (PO) as pairs."""

import codecs
import gettext
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns, named_languages
from clearhead.data.sources.left_out import counted_reasons, report_left_out
from clearhead.data.sources.streams import lines, open_file
from clearhead.data.sources.xml_pairs import is_language
from clearhead.errors import DataError

KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d+)\])?)\s*(".*)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|.)")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
# Enough bytes for the header.
HEADER = 1 << 14
# Why an entry is left out.
FUZZY, UNTRANSLATED, OBSOLETE = "fuzzy", "untranslated", "obsolete"
# A number that takes the form of most numbers, also in languages with several.
MANY = 5
# The language of the messages, unless the header names it.
SOURCE = "en"


@dataclass
class Entry:
    """A message, its plural, and the translations by plural form."""

    texts: dict[str, str] = field(default_factory=dict)
    """By keyword: msgctxt, msgid, msgid_plural."""
    forms: dict[int, str] = field(default_factory=dict)
    fuzzy: bool = False


def po_languages(path: Path) -> tuple[str, str] | None:
    """The language of the translations; that of the messages is English unless the header names it."""
    header = _header(path)
    target = re.match(r"[A-Za-z]*", header.get("language", ""))
    return named_languages([_source_language(header), target[0] if target else ""])


def read_po(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """One pair per translated message, two for one with a plural, in the direction of `languages`.

    Fuzzy, untranslated and obsolete entries are left out. Columns do not apply.
    """
    header = _header(path)
    swapped = _is_swapped(path, header, languages)
    forms = _plural_forms(header.get("plural-forms", ""))
    left_out: Counter[str] = Counter()
    found = False
    for entry in _entries(path, _encoding(path), left_out):
        if entry.fuzzy or not all(text.strip() for text in (entry.forms or {0: ""}).values()):
            left_out[FUZZY if entry.fuzzy else UNTRANSLATED] += 1
            continue
        for pair in _pairs(entry, forms):
            found = True
            yield pair.swapped if swapped else pair
    if not found:
        counts = counted_reasons(left_out)
        why = f"has no translations ({counts})" if counts else "holds no messages"
        raise DataError(f"{path}: {why}; name a file with translations")
    report_left_out(str(path), {kind: left_out[kind] for kind in (FUZZY, UNTRANSLATED, OBSOLETE)})


def _pairs(entry: Entry, forms: tuple[int, int] | None) -> Iterator[Pair]:
    """The message with its translation; with a plural, also the plural with the form for many."""
    plural, last = entry.texts.get("msgid_plural"), max(entry.forms)
    if plural is None:
        yield Pair(entry.texts["msgid"], entry.forms[last])
        return
    one, many = forms or (0, last)
    if one != many and one in entry.forms:
        yield Pair(entry.texts["msgid"], entry.forms[one])
    yield Pair(plural, entry.forms.get(many, entry.forms[last]))


def _entries(path: Path, encoding: str, left_out: Counter[str]) -> Iterator[Entry]:
    """The entries without the header; obsolete ones are only counted."""
    entry, fuzzy, key = Entry(), False, ""
    for number, line in enumerate(lines(path, encoding), start=1):
        text = line.strip()
        if text.startswith("#"):
            left_out[OBSOLETE] += bool(re.match(r"#~\s*msgid\s", text))
            fuzzy = fuzzy or (text.startswith("#,") and "fuzzy" in re.split(r"[,\s]+", text))
            continue
        if not text:
            continue
        keyword = KEYWORD.fullmatch(text)
        if keyword is None and not (text.startswith('"') and key):
            raise DataError(
                f"{path}, line {number}: not valid PO, but {text[:30]!r}; check it with msgfmt -c"
            )
        value = _unquoted(keyword[3] if keyword else text, f"{path}, line {number}")
        if keyword is None:
            _append(entry, key, value)
            continue
        if keyword[1] in ("msgctxt", "msgid") and (entry.forms or keyword[1] in entry.texts):
            if entry.texts.get("msgid"):
                yield entry
            entry = Entry()
        if keyword[1] in ("msgctxt", "msgid"):
            entry.fuzzy, fuzzy = entry.fuzzy or fuzzy, False
        key = keyword[1] if keyword[2] is None else f"msgstr[{int(keyword[2])}]"
        _append(entry, key, value)
    if entry.texts.get("msgid"):
        yield entry


def _append(entry: Entry, key: str, value: str) -> None:
    """Adds to a text of an entry, which may go on over several lines."""
    if key.startswith("msgstr"):
        form = int(key.partition("[")[2].rstrip("]") or 0)
        entry.forms[form] = entry.forms.get(form, "") + value
    else:
        entry.texts[key] = entry.texts.get(key, "") + value


def _unquoted(text: str, where: str) -> str:
    """The text of a string in quotes, without escapes."""
    found = STRING.fullmatch(text)
    if not found:
        raise DataError(f"{where}: not valid PO, because a quote is missing; check it with msgfmt -c")
    return ESCAPE.sub(lambda match: _character(match[1]), found[1])


def _character(escape: str) -> str:
    if escape[0] == "x" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    return ESCAPES.get(escape, escape)


def _encoding(path: Path) -> str:
    """The encoding that the header names; UTF-8 if it names none that is known."""
    with open_file(path) as stream:
        found = re.search(rb"charset=([\w.:-]+)", stream.read(HEADER))
    try:
        name = codecs.lookup(found[1].decode()).name if found else "utf-8"
        return name if b"\n".decode(name) == "\n" else "utf-8"
    except (LookupError, UnicodeError):
        return "utf-8"


def _header(path: Path) -> dict[str, str]:
    """The fields of the header entry, by lower-case name."""
    with open_file(path) as stream:
        text = stream.read(HEADER).decode("utf-8", errors="replace")
    text = "".join(re.split(r"^msgid\b", text, flags=re.MULTILINE)[:2])  # up to the second entry
    found = re.findall(r'^(?:msgstr )?"([\w-]+):\s*((?:[^"\\]|\\.)*?)\s*(?:\\n)?"\s*$', text, re.MULTILINE)
    return {name.lower(): value for name, value in reversed(found)}


def _source_language(header: dict[str, str]) -> str:
    found = re.match(r"[A-Za-z]+", header.get("x-source-language", ""))
    return found[0] if found else SOURCE


def _is_swapped(path: Path, header: dict[str, str], languages: tuple[str, str]) -> bool:
    """Whether the translations are in the first of the languages; raises DataError if in neither."""
    written = header.get("language", "")
    if not written or is_language(written, languages[1]):
        return False
    if is_language(written, languages[0]):
        return True
    raise DataError(
        f"{path}: translates into {written}, not {languages[1]}; name its languages (train: --from, --to)"
    )


def _plural_forms(field: str) -> tuple[int, int] | None:
    """The numbers of the forms for one and for many (five), by the expression in the header."""
    found = re.search(r"plural\s*=\s*([^;]+)", field)
    try:
        form = gettext.c2py(found[1]) if found else None
        return (form(1), form(MANY)) if form else None
    except (ValueError, RecursionError, ZeroDivisionError):
        return None
