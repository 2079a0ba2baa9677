"""Numbers and labels in words, for messages, notes and model cards."""

from collections.abc import Iterable

# Characters of a quoted label.
MAX_QUOTED = 30


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as "1 pair" or "2,000 pairs"; of a phrase, the last word is inflected."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Several of what a noun names, such as "batches"; abbreviations such as MB stay as they are."""
    if noun.isupper():
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"


def label_list(labels: Iterable[str], most: int = 8) -> str:
    """The first labels, and how many more there are."""
    found = list(labels)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def quoted(labels: Iterable[str]) -> str:
    """The first labels in quotes, each shortened, since a file may hold whole texts instead."""
    short = (f"{label[:MAX_QUOTED]}{'…' * (len(label) > MAX_QUOTED)}" for label in labels)
    return label_list((f"'{label}'" for label in short), most=5)
