"""A lesson: one view of one text, what to know about it, and what to look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Line:
    """One sentence or two of a lesson."""

    text: str
    claim: str | None = None
    """The name of what it claims about the model, by which a test checks it; None for an explanation."""
    any_text: bool = True
    """Whether it holds for every text; otherwise it is shown with the lesson's own text only."""

    def record(self) -> dict[str, Any]:
        return {"text": self.text, "any_text": self.any_text}


@dataclass(frozen=True)
class Lesson:
    """A step of the tour."""

    title: str
    view: str
    text: str
    """The input that the model reads, unless the reader has typed another."""
    says: Sequence[Line]
    look: Sequence[Line]
    """What to try; every line names its claim."""
    quote: str = ""
    """From the lectures."""
    worked: Sequence[str] = ()
    """Small examples that are worked out by hand."""
    pick: Mapping[str, Any] = field(default_factory=dict)
    """The selection with which the lesson opens."""
    head: str = ""
    """Opens with the head that has this role most clearly, or with the best "aligner"."""

    @property
    def lines(self) -> list[Line]:
        return [*self.says, *self.look]

    def record(self) -> dict[str, Any]:
        """The lesson as JSON."""
        return {
            "title": self.title,
            "view": self.view,
            "text": self.text,
            "quote": self.quote,
            "says": [line.record() for line in self.says],
            "worked": list(self.worked),
            "look": [line.record() for line in self.look],
            "pick": dict(self.pick),
            "head": self.head,
        }
