"""Which columns or fields of a file hold source, target or text."""

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from clearhead.data.sources.conversations import form_of
from clearhead.errors import DataError
from clearhead.text.language_names import CODES_BY_OTHER_NAME, CODES_BY_THREE_LETTERS, fold_name
from clearhead.text.languages import NAMES

Column = int | str
Columns = tuple[Column, Column]
# The usual names of the field that holds a document.
TEXT_FIELDS = ("text", "content", "document", "body")
# The usual names of the two columns of pairs, in the order in which they are looked for.
PAIR_NAMES = (
    ("source", "target"),
    ("src", "tgt"),
    ("src", "trg"),
    ("source_text", "target_text"),
    ("source_sentence", "target_sentence"),
    ("src_text", "tgt_text"),
    ("original", "translation"),
    ("source", "translation"),
    ("input", "output"),
    ("prompt", "completion"),
    ("prompt", "answer"),
    ("prompt", "response"),
    ("question", "answer"),
    ("instruction", "output"),
    ("instruction", "response"),
)
# Words beside the language in the name of a column: 'caption_en', 'English text'.
GENERIC = frozenset(
    ("text", "sentence", "segment", "string", "caption", "source", "target", "src", "tgt", "translation")
)
# Names of columns that hold no text.
NO_TEXT = frozenset(
    ("id", "_id", "uid", "idx", "index", "no", "nr", "number", "key", "url", "split", "score", "date")
)

# Language codes by name. Three-letter codes are ambiguous: 'cat' and 'tel' may not be languages.
UNAMBIGUOUS_SPELLINGS = (
    CODES_BY_OTHER_NAME
    | {fold_name(name): code for code, name in NAMES.items()}
    | {code: code for code in NAMES}
)
SPELLINGS = CODES_BY_THREE_LETTERS | UNAMBIGUOUS_SPELLINGS


class ColumnsError(DataError):
    """A file does not say which columns to read; the message names the setting that does."""

    def __init__(self, problem: str, columns: Columns, or_else: str = ""):
        """`columns` are the likely ones; `or_else` goes on after the option."""
        super().__init__(f"{problem}; name the columns: {columns_setting(columns)}{or_else}")
        self.problem, self.columns = problem, columns

    def naming(self, option: str) -> DataError:
        """The same problem, where another option names the columns."""
        return DataError(f"{self.problem}; name the columns: {option}")


def columns_setting(columns: Sequence[Column]) -> str:
    """The option of `clearhead train` that names columns."""
    return f"--set data.columns={shlex.quote(json.dumps(list(columns), ensure_ascii=False))}"


def columns_option(columns: Sequence[Column]) -> str:
    """The option of `clearhead evaluate` that names columns."""
    return f"--columns {shlex.quote(','.join(map(str, columns)))}"


def usual_columns(names: Sequence[str], languages: tuple[str, str]) -> tuple[str, str] | None:
    """The two names under which pairs are usually kept, as the file spells them; case does not matter."""
    source, target = (_language_column(names, language) for language in languages)
    if source is not None and target is not None and source != target:
        return source, target
    folded = {name.strip().casefold(): name for name in reversed(names)}
    found = next((usual for usual in (languages, *PAIR_NAMES) if folded.keys() >= {*usual}), None)
    return (folded[found[0]], folded[found[1]]) if found else None


def _language_column(names: Sequence[str], language: str) -> str | None:
    """The column of a language: 'de', 'translation.de', else the only one like 'Deutsch' or 'caption_de'."""
    folded = {name.strip().casefold(): name for name in reversed(names)}
    exact = (language.casefold(), f"translation.{language}", NAMES.get(language, language).casefold())
    if found := next((folded[name] for name in exact if name in folded), None):
        return found
    whole = [name for name in names if SPELLINGS.get(fold_name(name)) == language]
    similar = [name for name in names if language_of(name) == language]
    return next((found[0] for found in (whole, similar) if len(found) == 1), None)


def language_of(name: str, spellings: Mapping[str, str] = SPELLINGS) -> str | None:
    """The code of the language in the name of a column: 'de' for 'German', 'deu', 'de_AT' or 'caption_de'."""
    folded = fold_name(name)
    if folded in spellings:
        return spellings[folded]
    words = [word for word in re.split(r"[\W_]+", folded) if word]
    if re.fullmatch(r"[a-z]{2,3}[-_]([A-Z]{2}|[A-Z][a-z]{3})", name.strip()) and words[0] in spellings:
        return spellings[words[0]]  # with a region, or with a script as in 'deu_Latn'
    found = {spellings[word] for word in words if word in spellings}
    others = [word for word in words if word not in spellings and word not in GENERIC]
    return found.pop() if len(found) == 1 and not others else None


def named_languages(names: Iterable[str]) -> tuple[str, str] | None:
    """The language codes among codes and names of languages, if there are exactly two."""
    names = list(names)
    for spellings in (SPELLINGS, UNAMBIGUOUS_SPELLINGS):
        found = list(dict.fromkeys(code for name in names if (code := language_of(name, spellings))))
        if len(found) == 3 and "id" in found:
            found.remove("id")  # most likely numbers, not Indonesian
        if len(found) == 2:
            return found[0], found[1]
    return None


def select_columns(
    where: str, names: Sequence[str], languages: tuple[str, str], columns: Columns | None
) -> tuple[str, str]:
    """The names of the requested columns, which may be given by index, or of the usual ones."""
    if columns is None:
        if usual := usual_columns(names, languages):
            return usual
        if len(names) > 1:
            # Pairs that are not of two languages, such as prompts and answers, name their own columns.
            sides = "source and target" if NAMES.keys() & {*languages} else " and ".join(languages)
            raise ColumnsError(
                f"{where}: which fields hold {sides} is unclear; it has {listed(names)}", likely_names(names)
            )
        return ("source", "target") if NAMES.keys() & {*languages} else languages
    source, target = (
        names[column] if isinstance(column, int) and column < len(names) else str(column)
        for column in columns
    )
    return source, target


def likely_field(names: Collection[str]) -> str:
    """A name that may hold text."""
    return next((name for name in names if name.strip().casefold() not in NO_TEXT), "NAME")


def likely_names(names: Sequence[str]) -> tuple[str, str]:
    """Two names that may hold text, of two or more."""
    found = [name for name in names if name.strip().casefold() not in NO_TEXT]
    first, second = (found if len(found) > 1 else names)[:2]
    return first, second


def select_text_fields(path: Path, names: Collection[str], requested: str | None) -> list[str]:
    """The names of the requested field, or of several joined by +, or of the usual one that holds text."""
    if requested is None or requested in names:
        found = [requested] if requested else [name for name in TEXT_FIELDS if name in names][:1]
    else:
        found = requested.split("+")
    if not found or not {*found} <= {*names}:
        problem = f"no field '{requested}'" if requested else "the field that holds the text is unclear"
        form = form_of(names)
        field = shlex.quote(form.text_field if form else likely_field(names))
        template = shlex.quote(f"data.template={form.template}".replace("\n", "\\n")) if form else ""
        raise DataError(
            f"{path}: {problem}; it has {listed(names)}; name it (train: --set data.field={field}, "
            f"evaluate: --field {field})"
            + (f", or train a language model on the answers (train: --set {template})" if form else "")
        )
    return found


def usual_name(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that a file has, as the file spells it; case does not matter."""
    lowered = {name.lower(): name for name in reversed(names)}
    return next((lowered[name] for name in usual if name in lowered), None)


def listed(names: Collection[str]) -> str:
    """The first of the names, for a message."""
    shown = [name if len(name) < 30 else f"{name[:29]}…" for name in list(names)[:12]]
    return ", ".join(shown) or "none"
