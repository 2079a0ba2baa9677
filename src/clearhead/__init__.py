"""clearhead: a Transformer you can see through and still put in production."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.errors import ClearheadError
    from clearhead.inspection import Trace, capture, intervene
    from clearhead.inspection.explanation import Explanation
    from clearhead.tasks.language.generation import Generation
    from clearhead.tasks.language.model import LanguageModel
    from clearhead.tasks.load import load
    from clearhead.tasks.translation.model import Sampling, TranslateOptions, Translation, TranslationModel

__all__ = [
    "ClearheadError",
    "Explanation",
    "Generation",
    "LanguageModel",
    "Sampling",
    "Trace",
    "TranslateOptions",
    "Translation",
    "TranslationModel",
    "capture",
    "intervene",
    "load",
]
__version__ = "0.1.0"

_HOMES = {
    "ClearheadError": "clearhead.errors",
    "Explanation": "clearhead.inspection.explanation",
    "Generation": "clearhead.tasks.language.generation",
    "LanguageModel": "clearhead.tasks.language.model",
    "Sampling": "clearhead.tasks.translation.model",
    "Trace": "clearhead.inspection",
    "Translation": "clearhead.tasks.translation.model",
    "TranslationModel": "clearhead.tasks.translation.model",
    "TranslateOptions": "clearhead.tasks.translation.model",
    "capture": "clearhead.inspection",
    "intervene": "clearhead.inspection",
    "load": "clearhead.tasks.load",
}


def __getattr__(name: str) -> Any:
    """Imported on first use: torch takes seconds, and `clearhead --help` does not need it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    # Rooms above the one that is asked for add to it: the explorer writes explanations as pages.
    importlib.import_module("clearhead.explorer")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
