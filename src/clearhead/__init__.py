"""clearhead: a Transformer you can see through and still put in production."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.errors import ClearheadError
    from clearhead.inspection import Trace, capture, intervene
    from clearhead.tasks.continuing import Generation
    from clearhead.tasks.explaining import Explanation
    from clearhead.tasks.language import LanguageModel
    from clearhead.tasks.loading import load
    from clearhead.tasks.translation import Sampling, Translation, TranslationModel, Wishes

__all__ = [
    "ClearheadError",
    "Explanation",
    "Generation",
    "LanguageModel",
    "Sampling",
    "Trace",
    "Translation",
    "TranslationModel",
    "Wishes",
    "capture",
    "intervene",
    "load",
]
__version__ = "0.1.0"

_HOMES = {
    "ClearheadError": "clearhead.errors",
    "Explanation": "clearhead.tasks.explaining",
    "Generation": "clearhead.tasks.continuing",
    "LanguageModel": "clearhead.tasks.language",
    "Sampling": "clearhead.tasks.translation",
    "Trace": "clearhead.inspection",
    "Translation": "clearhead.tasks.translation",
    "TranslationModel": "clearhead.tasks.translation",
    "Wishes": "clearhead.tasks.translation",
    "capture": "clearhead.inspection",
    "intervene": "clearhead.inspection",
    "load": "clearhead.tasks.loading",
}


def __getattr__(name: str) -> Any:
    """Imported on first use: torch takes seconds, and `clearhead --help` does not need it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
