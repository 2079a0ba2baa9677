"""Which columns or fields of a file hold source, target or text."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from clearhead.errors import DataError
from clearhead.text.languages import NAMES

Column = int | str
Columns = tuple[Column, Column]
# The usual names of the field that holds a document.
TEXT_FIELDS = ("text", "content", "document", "body")


def usual_columns(names: Sequence[str], languages: tuple[str, str]) -> tuple[str, str] | None:
    """The two names under which pairs are usually kept, if the file has them."""
    source, target = languages
    nested = (f"translation.{source}", f"translation.{target}")
    spelled = (NAMES.get(source, source), NAMES.get(target, target))
    lowered = (spelled[0].lower(), spelled[1].lower())
    usual = (languages, ("source", "target"), nested, spelled, lowered)
    return next((columns for columns in usual if set(columns) <= set(names)), None)


def select_columns(
    names: Sequence[str], languages: tuple[str, str], columns: Columns | None
) -> tuple[str, str]:
    """The names of the requested columns, which may be given by index, or of the usual ones."""
    if columns is None:
        # Pairs that are not of two languages, such as prompts and answers, name their own columns.
        default = ("source", "target") if NAMES.keys() & {*languages} else languages
        return usual_columns(names, languages) or default
    source, target = (
        names[column] if isinstance(column, int) and column < len(names) else str(column)
        for column in columns
    )
    return source, target


def select_text_fields(path: Path, names: Collection[str], requested: str | None) -> list[str]:
    """The names of the requested field, or of several joined by +, or of the usual one that holds text."""
    if requested is None or requested in names:
        found = [requested] if requested else [name for name in TEXT_FIELDS if name in names][:1]
    else:
        found = requested.split("+")
    if not found or not {*found} <= {*names}:
        problem = f"no field '{requested}'" if requested else "the field that holds the text is unclear"
        pairs = {"prompt", "answer"} <= {*names} and not requested
        raise DataError(
            f"{path}: {problem}; it has {listed(names)}; name one "
            "(train: --set data.field=NAME, evaluate: --field NAME)"
            + (", or train on the answers (train: --set data.template='{prompt} {answer}')" if pairs else "")
        )
    return found


def named_languages(names: Iterable[str]) -> tuple[str, str] | None:
    """The language codes among codes and names of languages, if there are exactly two."""
    codes = {name.lower(): code for code, name in NAMES.items()} | {code: code for code in NAMES}
    found = list(dict.fromkeys(codes[key] for name in names if (key := name.strip().lower()) in codes))
    return (found[0], found[1]) if len(found) == 2 else None


def usual_name(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that a file has, as the file spells it; case does not matter."""
    lowered = {name.lower(): name for name in reversed(names)}
    return next((lowered[name] for name in usual if name in lowered), None)


def listed(names: Collection[str]) -> str:
    """The first of the names, for a message."""
    return ", ".join(list(names)[:12]) or "none"
