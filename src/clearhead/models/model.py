"""What every model family offers: its settings, its processor, how it is built, and its anatomy."""

from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from clearhead.config import Settings
from clearhead.models.anatomy import Anatomy


@runtime_checkable
class Processor(Protocol):
    """Turns raw input into a model's input, and is saved beside the weights: a tokenizer, an image transform."""

    FILE: ClassVar[str]
    """Its file in a model's folder."""

    def save(self, path: Path) -> None: ...

    @classmethod
    def load(cls, path: Path) -> Any: ...

    @property
    def fingerprint(self) -> str:
        """Equal for processors that give the same input."""
        ...


class Model(Protocol):
    """A family of models, as the table MODELS holds it; the class is a torch module."""

    Config: ClassVar[Any]
    """The class of its settings, told apart by the literal `kind`."""
    Processor: ClassVar[Any]
    """The class of its processor; None where raw input needs none."""
    config: Settings

    @classmethod
    def build(cls, config: Any, processor: Any) -> Any:
        """A model with fresh weights."""
        ...

    def anatomy(self) -> Anatomy: ...
