"""Tasks: what models are trained for, one folder each, and the one table of them."""

from clearhead.tasks.language.task import LanguageTask
from clearhead.tasks.ngrams.task import NgramTask
from clearhead.tasks.task import Task
from clearhead.tasks.translation.task import TranslationTask

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "language": LanguageTask,
    "ngrams": NgramTask,
}
"""Every task by the `kind` of its recipes; add your own before you use it (`tasks/task.py`)."""
