"""clearhead: a Transformer you can see through and still put in production."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.checkpoint import load_checkpoint, save_checkpoint
    from clearhead.data.batch import TensorBatch
    from clearhead.errors import ClearheadError
    from clearhead.evaluation.metric import Metric
    from clearhead.inspection import Trace, capture, intervene
    from clearhead.inspection.explanation import Explanation
    from clearhead.models import GPT, MODELS, GPTConfig, Translator, TranslatorConfig
    from clearhead.tasks import TASKS
    from clearhead.tasks.language.generation import GenerateOptions, Generation
    from clearhead.tasks.language.model import LanguageModel
    from clearhead.tasks.load import load
    from clearhead.tasks.recipe import Recipe
    from clearhead.tasks.run import train
    from clearhead.tasks.task import Task
    from clearhead.tasks.translation.model import TranslationModel
    from clearhead.tasks.translation.options import Sampling, TranslateOptions
    from clearhead.tasks.translation.search import Translation
    from clearhead.tasks.translation.shortlist import Shortlist
    from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
    from clearhead.training import Trainer, TrainingConfig

__all__ = [
    "GPT",
    "MODELS",
    "TASKS",
    "ClearheadError",
    "Explanation",
    "GPTConfig",
    "GenerateOptions",
    "Generation",
    "LanguageModel",
    "Metric",
    "Recipe",
    "Sampling",
    "Shortlist",
    "Task",
    "TensorBatch",
    "Tokenizer",
    "TokenizerConfig",
    "Trace",
    "Trainer",
    "TrainingConfig",
    "TranslateOptions",
    "Translation",
    "TranslationModel",
    "Translator",
    "TranslatorConfig",
    "capture",
    "intervene",
    "load",
    "load_checkpoint",
    "save_checkpoint",
    "train",
]
__version__ = "0.1.0"

_MODULES = {
    "clearhead.checkpoint": ("load_checkpoint", "save_checkpoint"),
    "clearhead.data.batch": ("TensorBatch",),
    "clearhead.errors": ("ClearheadError",),
    "clearhead.evaluation.metric": ("Metric",),
    "clearhead.inspection": ("Trace", "capture", "intervene"),
    "clearhead.inspection.explanation": ("Explanation",),
    "clearhead.models": ("GPT", "MODELS", "GPTConfig", "Translator", "TranslatorConfig"),
    "clearhead.tasks": ("TASKS",),
    "clearhead.tasks.language.generation": ("GenerateOptions", "Generation"),
    "clearhead.tasks.language.model": ("LanguageModel",),
    "clearhead.tasks.load": ("load",),
    "clearhead.tasks.recipe": ("Recipe",),
    "clearhead.tasks.run": ("train",),
    "clearhead.tasks.task": ("Task",),
    "clearhead.tasks.translation.model": ("TranslationModel",),
    "clearhead.tasks.translation.options": ("Sampling", "TranslateOptions"),
    "clearhead.tasks.translation.search": ("Translation",),
    "clearhead.tasks.translation.shortlist": ("Shortlist",),
    "clearhead.text.tokenizer": ("Tokenizer", "TokenizerConfig"),
    "clearhead.training": ("Trainer", "TrainingConfig"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because torch takes seconds and `clearhead --help` needs none."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    # The explorer registers its writer of HTML pages for explanations.
    importlib.import_module("clearhead.explorer")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
