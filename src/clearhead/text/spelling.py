"""Texts that a tokenizer cannot spell: how many there are, and what becomes of their words."""

from collections.abc import Iterable, Sequence

from clearhead.text.tokenizer import Tokenizer

EXAMPLES = 3
# Texts that are encoded at a time.
CHUNK = 1000


class Unspelled:
    """Counts the texts that a tokenizer loses something of, with a few examples.

    What a tokenizer leaves out by choice, such as case or double spaces, does not count.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.texts, self.lost = 0, 0
        self.examples: dict[str, str] = {}
        """Words, and what decoding returns for each."""
        self._tokenizer = tokenizer

    @classmethod
    def of(cls, tokenizer: Tokenizer, texts: Iterable[str]) -> "Unspelled":
        """The count of all these texts."""
        found, several = cls(tokenizer), list(texts)
        for start in range(0, len(several), CHUNK):
            chunk = several[start : start + CHUNK]
            found.add(chunk, tokenizer.encode_batch(chunk))
        return found

    def add(self, texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> None:
        """Counts texts by their ids."""
        self.texts += len(texts)
        unknown = self._tokenizer.unk_id
        if unknown is None:
            return
        for text, ids in zip(texts, encoded, strict=True):
            if unknown in ids:
                self.lost += 1
                self._add_examples(text, unknown)

    def warning(self, name: str, unit: str = "line") -> str | None:
        """One line that names the model, or None if nothing is lost."""
        if not self.lost:
            return None
        count = f"{self.lost:,} of {self.texts:,} {unit}{'' if self.texts == 1 else 's'}"
        becomes = ", ".join(
            f'"{word}" becomes "{left}"' if left else f'"{word}" is lost'
            for word, left in self.examples.items()
        )
        return f"the tokenizer of {name} cannot spell {count}" + (f": {becomes}" if becomes else "")

    def _add_examples(self, text: str, unknown: int) -> None:
        for word in text.split():
            if len(self.examples) == EXAMPLES:
                return
            ids = self._tokenizer.encode(word)
            if unknown in ids and len(word) <= 40:
                self.examples[word] = self._tokenizer.decode([number for number in ids if number != unknown])
