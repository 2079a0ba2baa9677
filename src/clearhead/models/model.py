"""The protocols of a model family and of its processor."""

from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from clearhead.config import Settings
from clearhead.models.anatomy import Anatomy


@runtime_checkable
class Processor(Protocol):
    """Turns raw input into model input and is saved with the weights: a tokenizer, an image transform."""

    FILE: ClassVar[str]
    """Its file name in a model folder."""

    def save(self, path: Path) -> None: ...

    @classmethod
    def load(cls, path: Path) -> Any: ...

    @property
    def fingerprint(self) -> str:
        """Equal for processors that produce the same input."""
        ...


class Model(Protocol):
    """A model family: a torch module with these class attributes, registered in MODELS.

    A model whose tensors are as large as its training data made them also has `take_weights(values,
    location)`, which takes those of a file; the shapes of all others follow from their settings.
    """

    Config: ClassVar[Any]
    """The class of its settings; the literal field `kind` is its key in MODELS."""
    Processor: ClassVar[Any]
    """The class of its processor; None if it takes tensors only."""
    config: Settings

    @classmethod
    def build(cls, config: Any, processor: Any) -> Any:
        """A model with new weights."""

    def anatomy(self) -> Anatomy: ...
