"""How sentences are written: the typography of a language, and variants of a sentence as people type it."""

import hashlib
import re

from clearhead.data.pair import Pair

# The quotation marks of a language; the spaces within French ones are part of them.
QUOTES = {"en": ('"', '"'), "de": ("„", "“"), "fr": ("« ", " »")}
ANY_QUOTE = re.compile(r'[«»„“”‟"]')
QUOTED = re.compile(r'[«»„“”‟"]\s*([^«»„“”‟"]+?)\s*[«»„“”‟"]')
# French sets a space before these marks, unless more text follows at once, as in 12:30 or in an address. The
# mark comes first, so that the search skips to it; the lookbehind then checks what precedes it.
FRENCH_MARK = re.compile(r'[?!;:](?<=[^\s?!;:«"(].)(?=[\s»"?!]|$)')
FINAL = ".?!…"
CLOSING = "\"'’”“»)‟ "
BRACKETS = "()[]"


def typeset(text: str, language: str) -> str:
    """The text with straight apostrophes, and with the quotation marks and spacing of its language."""
    text = text.replace("’", "'")
    quotes = len(ANY_QUOTE.findall(text))
    if quotes and quotes % 2 == 0 and language in QUOTES:
        text = QUOTED.sub(r"\1".join(QUOTES[language]), text)
    return FRENCH_MARK.sub(r" \g<0>", text) if language == "fr" else text


def is_mismatched(pair: Pair) -> bool:
    """Whether only one side is a question, ends without punctuation, or has brackets."""
    ends = [final_mark(side) for side in pair]
    questions = [end == "?" for end in ends]
    brackets = [any(mark in side for mark in BRACKETS) for side in pair]
    return questions[0] != questions[1] or bool(ends[0]) != bool(ends[1]) or brackets[0] != brackets[1]


def final_mark(text: str) -> str:
    """The mark that ends a sentence, or nothing."""
    end = text.rstrip(CLOSING)[-1:]
    return end if end in FINAL else ""


def variant(pair: Pair, share: float) -> Pair | None:
    """For a share of all pairs, the pair as people type: in lower case, unpunctuated, or with curly quotes.

    Only the pair decides whether it has a variant, and which. The target keeps its case, and loses its final
    mark if the source does; a question keeps its mark.
    """
    digest = hashlib.blake2b(f"{pair.source}\t{pair.target}".encode(), digest_size=8).digest()
    number, kind = divmod(int.from_bytes(digest, "little"), 4)
    if number % 10_000 >= share * 10_000:
        return None
    source, target = pair
    if kind in (0, 1):
        source = source.lower()
    if kind in (1, 2) and source.endswith((".", "!")) and target.endswith((".", "!")):
        source, target = source.rstrip(".!"), target.rstrip(".! ")
    if kind == 3:
        source = re.sub(r'"([^"]*)"', r"“\1”", source.replace("'", "’"))
    changed = Pair(source, target)
    return changed if all(changed) and changed != pair else None
