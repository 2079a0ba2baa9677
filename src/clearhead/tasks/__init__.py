"""Tasks: what models are trained for, one folder each, and the one table of them."""

from clearhead.tasks.captioning.task import CaptioningTask
from clearhead.tasks.classification.task import ClassificationTask
from clearhead.tasks.image_classification.task import ImageClassificationTask
from clearhead.tasks.language.task import LanguageTask
from clearhead.tasks.masked.task import MaskedTask
from clearhead.tasks.ngrams.task import NgramTask
from clearhead.tasks.question_answering.task import QuestionAnsweringTask
from clearhead.tasks.task import Task
from clearhead.tasks.translation.task import TranslationTask
from clearhead.tasks.word_vectors.task import WordVectorsTask

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "language": LanguageTask,
    "ngrams": NgramTask,
    "word_vectors": WordVectorsTask,
    "classification": ClassificationTask,
    "masked": MaskedTask,
    "question_answering": QuestionAnsweringTask,
    "captioning": CaptioningTask,
    "image_classification": ImageClassificationTask,
}
"""Every task by the `kind` of its recipes; add your own before you use it (`tasks/task.py`)."""
