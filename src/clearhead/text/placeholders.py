"""Placeholders for the items of a sentence while a translator reads it, and the items put back afterwards."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clearhead.text.inline import CLOCK, Core, Part, Role
from clearhead.text.kinds import STAND_INS, UNK
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer

# A tokenizer without placeholders gets words that most translators copy: names, and numbers for amounts.
NAMES = ("Tom", "Paris", "Boston", "Jackson")
NUMBERS = ("123", "2013", "1984", "300")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_CLOCK = re.compile(rf"(?<!\w){CLOCK}(?!\w)")
_FRENCH_TIME = re.compile(r"(\d+)\W?h\W?(\d+)")
_STAND_IN = re.compile(f" ?[{STAND_INS[0]}-{STAND_INS[-1]}]")


@dataclass(frozen=True)
class Written:
    """A sentence as the translator reads it: stand-ins instead of hidden items."""

    text: str
    hidden: tuple[Part, ...]
    """The items that the stand-ins stand for, in order; positions are in the text that they come from."""
    visible: tuple[Part, ...]
    """Items that the translator reads, with their positions in the text."""
    words: tuple[str, ...] = ()
    """Words instead of stand-ins, for a tokenizer without placeholders."""

    def position(self, original: int) -> int:
        """A position in the text with all items, in this text."""
        return original - sum(len(part.text) - 1 for part in self.hidden if part.end <= original)

    def readable(self, text: str) -> str:
        """A text with words for stand-ins, if the tokenizer needs them."""
        for stand_in, word in zip(STAND_INS, self.words, strict=False):
            text = text.replace(stand_in, word)
        return text

    def standing(self, text: str) -> str:
        """A translation with stand-ins for these words; each stand-in once, and no others."""
        for stand_in, word in zip(STAND_INS, self.words, strict=False):
            text = re.sub(rf"(?<!\w)(?<!\d[.,:]){re.escape(word)}(?!\w|[.,:]\d)", stand_in, text)
        expected = set(STAND_INS[: len(self.hidden)])

        def once(match: re.Match[str]) -> str:
            known = match[0][-1] in expected
            expected.discard(match[0][-1])
            return match[0] if known else ""

        return _STAND_IN.sub(once, text)

    def missing(self, target: str) -> list[Part]:
        """The items that a translation lacks."""
        lost = [part for one, part in zip(STAND_INS, self.hidden, strict=False) if one not in target]
        digits = Counter([*_NUMBER.findall(target), *_CLOCK.findall(target)])
        for part in self.visible:
            written = next((form for form in forms(part) if digits[form]), "")
            if part.role is Role.NUMBER and written:
                digits[written] -= 1
            elif part.role is Role.NUMBER or part.text not in target:
                lost.append(part)
        return lost

    def item(self, character: str) -> str:
        """The item for a stand-in; other characters are themselves."""
        index = ord(character) - ord(STAND_INS[0])
        return self.hidden[index].text if 0 <= index < len(self.hidden) else character


def forms(part: Part) -> tuple[str, ...]:
    """How a translation may write an item: as it is, and 7 h 30 as 7:30."""
    time = _FRENCH_TIME.fullmatch(part.text)
    return (part.text, f"{time[1]}:{time[2]}") if time else (part.text,)


def hide(core: Core, tokenizer: Tokenizer, hides: Callable[[Part], bool], by_words: bool = False) -> Written:
    """The core of a sentence with as many of the chosen items hidden as there are placeholders.

    Items are hidden by words if the tokenizer has no placeholders, or with `by_words`.
    """
    own, chosen = bool(tokenizer.placeholder_ids) and not by_words, list[Part]()
    taken: list[str] = []
    for part in core.items:
        word = None if own else _free_word(part, core.text, taken, tokenizer)
        if hides(part) and (len(chosen) < len(tokenizer.placeholder_ids) if own else word):
            chosen.append(part)
            taken += [word] if word else []
    pieces: list[str] = []
    visible: list[Part] = []
    length = end = 0
    for part in core.items:
        pieces.append(core.text[end : part.start])
        length += part.start - end
        shown = STAND_INS[chosen.index(part)] if part in chosen else part.text
        if part not in chosen:
            visible.append(Part(part.role, length, length + len(shown), shown))
        pieces.append(shown)
        length += len(shown)
        end = part.end
    return Written("".join([*pieces, core.text[end:]]), tuple(chosen), tuple(visible), tuple(taken))


def encode(written: Sequence[Written], tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of sentences with their placeholders."""
    return tokenizer.encode_protected([normalize(one.readable(one.text)) for one in written])


def decode(written: Written, ids: Sequence[int], tokenizer: Tokenizer) -> str:
    """The translation with stand-ins, each at most once."""
    return written.standing(tokenizer.decode_protected(ids))


def _free_word(part: Part, text: str, taken: Sequence[str], tokenizer: Tokenizer) -> str | None:
    """A word to stand for an item, which neither the sentence nor another item uses."""
    numeric = any(map(str.isdecimal, part.text)) and not any(map(str.isalpha, part.text))
    for word in NUMBERS if numeric else NAMES:
        if word not in text and word not in taken and UNK not in tokenizer.encode(word):
            return word
    return None
