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

_MODULES = {
    "ClearheadError": "clearhead.errors",
    "Explanation": "clearhead.inspection.explanation",
    "Generation": "clearhead.tasks.language.generation",
    "LanguageModel": "clearhead.tasks.language.model",
    "Sampling": "clearhead.tasks.translation.model",
    "Trace": "clearhead.inspection",
    "TranslateOptions": "clearhead.tasks.translation.model",
    "Translation": "clearhead.tasks.translation.model",
    "TranslationModel": "clearhead.tasks.translation.model",
    "capture": "clearhead.inspection",
    "intervene": "clearhead.inspection",
    "load": "clearhead.tasks.load",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because torch takes seconds and `clearhead --help` needs none."""
    if name not in _MODULES:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    # The explorer registers its writer of HTML pages for explanations.
    importlib.import_module("clearhead.explorer")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
