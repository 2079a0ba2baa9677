"""Texts in which [MASK] stands for a missing token."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import ModelError
from clearhead.text.kinds import JOINER, SPACE
from clearhead.text.tokenizer import VISIBLE, Tokenizer

WRITTEN = "[MASK]"
"""How people write a mask."""
# Letters that are rarely in a text or a vocabulary: Yi syllables.
RARE_LETTERS = range(0xA000, 0xA48D)
# The byte-level form of a space.
BYTE_SPACE = "Ġ"
WHITESPACE = {ord(shown): chr(character) for character, shown in VISIBLE.items()} | {ord(JOINER): ""}


@dataclass(frozen=True)
class MaskedText:
    """The ids of a text with masks, and where in it the masks are."""

    ids: list[int]
    text: str
    """The text, in which a rare letter stands for each mask."""
    spans: list[tuple[int, int]]
    """The characters that each mask stands for; in most kinds of tokenizer, with the space before them."""

    def filled(self, pieces: Sequence[str]) -> str:
        """The text with these tokens, in readable form, in place of its masks."""
        text = self.text
        for (start, end), piece in reversed(list(zip(self.spans, pieces, strict=True))):
            word = piece.translate(WHITESPACE)
            text = text[:start] + (word if start else word.lstrip(" ")) + text[end:]
        return text


def encode_masked(tokenizer: Tokenizer, text: str) -> MaskedText:
    """The ids of a text, in which each [MASK] is the tokenizer's mask token.

    The text is split as if a mask were a word, so that spaces and punctuation beside it have the ids that
    they have beside words.
    """
    if tokenizer.mask_id is None:
        raise ModelError("the tokenizer has no mask token; use a model that was trained on masked text")
    letter = next(one for one in map(chr, RARE_LETTERS) if one not in text and tokenizer.id(one) is None)
    # Masks without a space between them would become one word.
    text = re.sub(f"{letter}(?={letter})", f"{letter} ", text.replace(WRITTEN, letter))
    masks = [index for index, one in enumerate(text) if one == letter]
    spaces = {tokenizer.id(SPACE), tokenizer.id(BYTE_SPACE)}
    ids: list[int] = []
    spans: list[tuple[int, int]] = []
    before = last = (0, 0)
    for number, span in tokenizer.encode_spans(text):
        if span == last:
            continue  # another byte of the same letter
        if number in spaces or not masks or masks[0] not in range(*span):
            ids.append(number)
            before = span
            continue
        start = span[0]
        if ids and ids[-1] in spaces:
            ids.pop()  # a mask stands for a token with the space before it
            start = before[0]
        ids.append(tokenizer.mask_id)
        spans.append((start, span[1]))
        masks, last = [index for index in masks if index >= span[1]], span
    return MaskedText(ids, text, spans)
