"""What the models in use of all tasks share: where they come from, and a short description."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from clearhead.errors import ModelError
from clearhead.models.engine import Engine, Precision, check_precision


class TaskModel:
    """A trained model in use, with what turns its raw input into tensors; `load` gives one."""

    task: ClassVar[str]
    """Its kind in `TASKS`."""
    model: Any
    """The torch module."""
    name: str = ""
    """The name or folder it was loaded from."""
    folder: Path | None = None
    """Its folder, if it was loaded from one."""
    _precision: Precision = "fp32"
    _engine: Engine | None = None

    @property
    def precision(self) -> Precision:
        """The precision in which a model that writes text decodes: fp32, bf16 or int8."""
        return self._precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        self._precision = check_precision(precision)
        self._engine = None

    def __repr__(self) -> str:
        kind = getattr(self.model.config, "kind", type(self.model).__name__)
        parts = [f"{type(self).__name__} {self.name or '(not loaded from a folder)'}: {kind}", *self.facts()]
        sizes = {id(one): one.numel() for one in self.model.parameters()}
        if sizes:
            parts.append(f"{sum(sizes.values()):,} parameters on {next(self.model.parameters()).device}")
        if self.precision != "fp32":
            parts.append(f"decodes in {self.precision}")
        return ", ".join(parts)

    def facts(self) -> list[str]:
        """What a reader should know first, such as the languages."""
        return []

    def _held_out(self, folder: Path | str | None) -> Path:
        """The folder that holds its test data: the one given, or else its own."""
        found = self.folder if folder is None else Path(folder)
        if found is None:
            raise ModelError("folder: this model was not loaded from one; pass the folder of its test data")
        return found


class DecodingModel(TaskModel):
    """A model that writes text token by token, with a copy that does so fastest."""

    @property
    def engine(self) -> Any:
        """The copy of the model that decodes fastest; while the model is tapped, the model itself."""
        # A copy of this object may have been given another model.
        if self._engine is None or self._engine.model is not self.model:
            self._engine = Engine(self.model, self.precision)
        return self._engine.current()


def listed(labels: Sequence[str], most: int = 5) -> str:
    """The number of labels and the first of them."""
    more = ", …" if len(labels) > most else ""
    return f"{len(labels):,} labels ({', '.join(labels[:most])}{more})"
