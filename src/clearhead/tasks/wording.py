"""Numbers and labels in words, for notes, errors and model cards."""

from collections.abc import Iterable

# Characters of a quoted label.
MAX_QUOTED = 30


def counted(number: int, thing: str) -> str:
    """'1 document', '2 documents'."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def label_list(labels: Iterable[str], most: int = 8) -> str:
    """The first labels, and how many more there are."""
    found = list(labels)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def quoted(labels: Iterable[str]) -> str:
    """The first labels in quotes, each shortened, since a file may hold whole texts instead."""
    short = (f"{label[:MAX_QUOTED]}{'…' * (len(label) > MAX_QUOTED)}" for label in labels)
    return label_list((f"'{label}'" for label in short), most=5)
