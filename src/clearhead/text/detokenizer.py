"""The text of ids as they come: only whole characters, and nothing that may still become a stop string."""

from collections.abc import Sequence

from clearhead.text.tokenizer import Tokenizer

# Bytes that are no character yet are shown as this.
HALF = "\ufffd"
# How many ids of what was told before are decoded with new ones: blanks depend on what they follow.
BEFORE = 6


class StreamDetokenizer:
    """Tells one text; what it has told is the text without the stop string that ended it."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stops: Sequence[str] = ()):
        self._tokenizer, self._stops = tokenizer, stops
        self._ids = list(prompt[-BEFORE:])
        self._told = len(self._ids)
        self._held = ""
        self.text = ""
        self.stop: str | None = None
        """The stop string that has come up."""

    def add(self, number: int) -> str:
        """What can be told once this id is there."""
        self._ids.append(number)
        self._held += self._new(whole=True)
        return self._tell(self._free())

    def rest(self) -> str:
        """What was held back, when nothing follows."""
        self._held += self._new(whole=False)
        return self._tell(len(self._held))

    def _new(self, whole: bool) -> str:
        before, now = (self._tokenizer.decode(ids) for ids in (self._ids[: self._told], self._ids))
        if self.stop is not None or len(now) <= len(before) or (whole and now.endswith(HALF)):
            return ""
        del self._ids[:-BEFORE]
        self._told = len(self._ids)
        return now[len(before) :]

    def _free(self) -> int:
        """How much of what is held is certain; a stop string that has come up ends it."""
        found = [(place, stop) for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if found:
            place, self.stop = min(found)
            self._held = self._held[:place]
            return place
        begun = (
            length
            for stop in self._stops
            for length in range(min(len(stop) - 1, len(self._held)), 0, -1)
            if self._held.endswith(stop[:length])
        )
        return len(self._held) - max(begun, default=0)

    def _tell(self, length: int) -> str:
        told, self._held = self._held[:length], self._held[length:]
        self.text += told
        return told
