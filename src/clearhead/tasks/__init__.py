"""Tasks: what models are trained for, one folder each, and the one table of them."""

from collections import UserDict
from importlib import import_module

from clearhead.tasks.task import Task


class TaskTable(UserDict[str, type[Task]]):
    """Tasks by name; those of the package are imported when they are first used."""

    def __getitem__(self, name: str) -> type[Task]:
        found = super().__getitem__(name)
        if isinstance(found, str):
            found = self.data[name] = getattr(import_module(f"clearhead.tasks.{name}.task"), found)
        return found


TASKS = TaskTable()
"""Every task by the `kind` of its recipes; add your own before you use it (`tasks/task.py`)."""
TASKS.data = {  # pyright: ignore[reportAttributeAccessIssue]
    "translation": "TranslationTask",
    "language": "LanguageTask",
    "ngrams": "NgramTask",
    "word_vectors": "WordVectorsTask",
    "classification": "ClassificationTask",
    "masked": "MaskedTask",
    "question_answering": "QuestionAnsweringTask",
    "captioning": "CaptioningTask",
    "image_classification": "ImageClassificationTask",
}
