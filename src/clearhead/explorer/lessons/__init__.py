"""The guided tour of a model: lessons whose text is made from the model's own facts."""

from typing import Any

from clearhead.explorer.explorable import Explorable
from clearhead.explorer.lessons.facts import facts_of
from clearhead.explorer.lessons.gpt import gpt_lessons
from clearhead.explorer.lessons.lesson import Lesson
from clearhead.explorer.lessons.translator import translator_lessons

FAMILIES = {"gpt": gpt_lessons, "translator": translator_lessons}
"""The families that have lessons, by the kind of their model."""


def lessons_of(model: Explorable, name: str) -> list[Lesson]:
    """The lessons about a model; none if its family has none."""
    facts = facts_of(model, name)
    return FAMILIES[facts.kind](facts) if facts.kind in FAMILIES else []


def guide(model: Explorable, name: str) -> dict[str, Any]:
    """The lessons about a model and the example texts of its language, as JSON."""
    facts = facts_of(model, name)
    return {
        "text": facts.first_text,
        "meanings": facts.examples.meanings.record(),
        "lessons": [lesson.record() for lesson in lessons_of(model, name)],
    }
