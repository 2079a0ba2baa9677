"""Sentences in capitals: whether one is, and the sentence in the case that a translator knows."""

import re
from dataclasses import replace

from clearhead.text.inline import Core


def in_capitals(core: Core) -> bool:
    """Whether a sentence is written in capitals; a short word alone may be an acronym."""
    text = core.without_items
    found = [word for word in re.findall(r"[^\W\d_]+", text) if len(word) > 1]
    return text.upper() == text != text.lower() and (len(found) > 1 or any(len(one) > 5 for one in found))


def lowered(core: Core) -> Core:
    """The core in lower case but for its first letter, if it is in capitals; items stay as they are."""
    if not in_capitals(core):
        return core
    pieces, end = [], 0
    for part in core.items:
        pieces += [core.text[end : part.start].lower(), part.text]
        end = part.end
    text = "".join([*pieces, core.text[end:].lower()])
    if len(text) != len(core.text):  # a letter such as İ has no lower case of one character
        return core
    first = next((n for n, character in enumerate(text) if character.isalpha()), 0)
    if not any(part.start <= first < part.end for part in core.items):
        text = text[:first] + core.text[first] + text[first + 1 :]
    text = re.sub(r"\bi\b", "I", text)
    return replace(core, text=text)
