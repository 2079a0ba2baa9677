"""Texts in which [MASK] stands for a missing token."""

import re

from clearhead.errors import ModelError
from clearhead.text.kinds import SPACE
from clearhead.text.tokenizer import Tokenizer

WRITTEN = "[MASK]"
"""How people write a mask."""
# Letters that are rarely in a text or a vocabulary: Yi syllables.
RARE_LETTERS = range(0xA000, 0xA48D)
# The byte-level form of a space.
BYTE_SPACE = "Ġ"


def encode_masked(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text, in which each [MASK] is the tokenizer's mask token.

    The text is split as if a mask were a word, so that spaces and punctuation beside it have the ids that
    they have beside words.
    """
    if tokenizer.mask_id is None:
        raise ModelError("the tokenizer has no mask token; use a model that was trained on masked text")
    if WRITTEN not in text:
        return tokenizer.encode(text)
    letter = next(one for one in map(chr, RARE_LETTERS) if one not in text and tokenizer.id(one) is None)
    # Masks without a space between them would become one word.
    text = re.sub(f"{letter}(?={letter})", f"{letter} ", text.replace(WRITTEN, letter))
    masks = [index for index, one in enumerate(text) if one == letter]
    spaces = {tokenizer.id(SPACE), tokenizer.id(BYTE_SPACE)}
    ids: list[int] = []
    masked = (0, 0)
    for number, span in tokenizer.encode_spans(text):
        if span == masked:
            continue  # another byte of the same letter
        if number in spaces or not masks or masks[0] not in range(*span):
            ids.append(number)
            continue
        if ids and ids[-1] in spaces:
            ids.pop()  # a mask stands for a token with the space before it
        ids.append(tokenizer.mask_id)
        masks, masked = [index for index in masks if index >= span[1]], span
    return ids
