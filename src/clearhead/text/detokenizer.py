"""Streaming detokenization: text from ids as they arrive."""

from collections.abc import Sequence

from clearhead.text.tokenizer import Tokenizer

# Stands for bytes that do not form a character yet.
INCOMPLETE = "\ufffd"
# Earlier ids that are decoded with new ones, because spaces depend on what they follow.
CONTEXT = 6


class StreamDetokenizer:
    """The text of a stream of ids, in whole characters.

    A stop string ends the text and is not part of it, so text that may still become one is held back.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stops: Sequence[str] = ()):
        self._tokenizer, self._stops = tokenizer, stops
        self._ids = list(prompt[-CONTEXT:])
        self._decoded = len(self._ids)
        self._held_back = ""
        self.text = ""
        self.stop: str | None = None
        """The stop string that ended the text."""

    def add(self, number: int) -> str:
        """The new text after this id."""
        self._ids.append(number)
        self._held_back += self._new(complete=True)
        return self._release(self._certain())

    def rest(self) -> str:
        """The text held back, once the stream has ended."""
        self._held_back += self._new(complete=False)
        return self._release(len(self._held_back))

    def _new(self, complete: bool) -> str:
        before, now = (self._tokenizer.decode(ids) for ids in (self._ids[: self._decoded], self._ids))
        if self.stop is not None or len(now) <= len(before) or (complete and now.endswith(INCOMPLETE)):
            return ""
        del self._ids[:-CONTEXT]
        self._decoded = len(self._ids)
        return now[len(before) :]

    def _certain(self) -> int:
        """The length of the text that cannot become a stop string; a stop string cuts the text off."""
        found = [(index, stop) for stop in self._stops if (index := self._held_back.find(stop)) >= 0]
        if found:
            index, self.stop = min(found)
            self._held_back = self._held_back[:index]
            return index
        begun = (
            length
            for stop in self._stops
            for length in range(min(len(stop) - 1, len(self._held_back)), 0, -1)
            if self._held_back.endswith(stop[:length])
        )
        return len(self._held_back) - max(begun, default=0)

    def _release(self, length: int) -> str:
        released, self._held_back = self._held_back[:length], self._held_back[length:]
        self.text += released
        return released
