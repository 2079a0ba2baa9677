"""Under which names, or in which places, a table keeps source and target."""

from collections.abc import Collection, Sequence

Column = int | str
Columns = tuple[Column, Column]


def customary(have: Sequence[str], languages: tuple[str, str]) -> tuple[str, str] | None:
    """The names under which pairs are usually kept, if these are among those at hand."""
    nested = (f"translation.{languages[0]}", f"translation.{languages[1]}")
    return next(
        (names for names in (languages, ("source", "target"), nested) if set(names) <= set(have)), None
    )


def chosen(have: Sequence[str], languages: tuple[str, str], columns: Columns | None) -> tuple[str, str]:
    """The names of the wanted fields; a number is the place of a field among those at hand."""
    if columns is None:
        return customary(have, languages) or ("source", "target")
    source, target = (
        have[name] if isinstance(name, int) and name < len(have) else str(name) for name in columns
    )
    return source, target


def listed(names: Collection[str]) -> str:
    """The first of the names, for a message."""
    return ", ".join(list(names)[:12]) or "none"
