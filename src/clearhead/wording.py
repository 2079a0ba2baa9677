"""Numbers with their nouns in messages: "1 pair", "2,000 pairs"."""


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
