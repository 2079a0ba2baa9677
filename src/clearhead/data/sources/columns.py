"""Under which names, or in which places, a table keeps source and target."""

from collections.abc import Collection, Sequence

from clearhead.text.languages import NAMES

Column = int | str
Columns = tuple[Column, Column]


def customary(have: Sequence[str], languages: tuple[str, str]) -> tuple[str, str] | None:
    """The names under which pairs are usually kept, if these are among those at hand."""
    source, target = languages
    nested = (f"translation.{source}", f"translation.{target}")
    named = (NAMES.get(source, source), NAMES.get(target, target))
    lowered = (named[0].lower(), named[1].lower())
    usual = (languages, ("source", "target"), nested, named, lowered)
    return next((names for names in usual if set(names) <= set(have)), None)


def chosen(have: Sequence[str], languages: tuple[str, str], columns: Columns | None) -> tuple[str, str]:
    """The names of the wanted fields; a number is the place of a field among those at hand."""
    if columns is None:
        # What is paired but no languages, such as prompts and answers, has names of its own.
        usual = ("source", "target") if NAMES.keys() & {*languages} else languages
        return customary(have, languages) or usual
    source, target = (
        have[name] if isinstance(name, int) and name < len(have) else str(name) for name in columns
    )
    return source, target


def listed(names: Collection[str]) -> str:
    """The first of the names, for a message."""
    return ", ".join(list(names)[:12]) or "none"
