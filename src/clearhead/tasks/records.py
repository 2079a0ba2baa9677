"""A run's measurements on disk: metrics.jsonl, TensorBoard, and the picture of the curves."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clearhead.errors import TrainingError
from clearhead.files import write_text

METRICS, CURVES = "metrics.jsonl", "curves.png"
# The kind of measurement that is made of the published weights.
FINAL = "final"
# And of them on the test sentences: the BLEU of each direction.
TEST = "test"


class Records:
    """Appends measurements; on resuming, those after the saved step are dropped, as they will come again."""

    def __init__(self, folder: Path, step: int):
        # Imported here because it is slow to import and only training needs it.
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / METRICS
        kept = [line for line in read_metrics(folder) if line["step"] <= step and line["kind"] != FINAL]
        with naming(self.path):
            write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
            self._file = self.path.open("a", encoding="utf-8")
        self._board = SummaryWriter(folder / "training" / "tensorboard", purge_step=step + 1)

    def add(self, step: int, kind: str, values: Mapping[str, float | None]) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        with naming(self.path):
            self._file.write(json.dumps({"step": step, "kind": kind, **known}) + "\n")
            self._file.flush()
            for name, value in known.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        # Everything was flushed when it was added; a full disk has been told of by then.
        for writer in (self._file, self._board):
            with suppress(OSError):
                writer.close()


class NoRecords:
    """Those of a rank that leaves it to rank 0 to write them."""

    def add(self, step: int, kind: str, values: Mapping[str, float | None]) -> None: ...

    def close(self) -> None: ...


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What the system refuses to write becomes an error that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise TrainingError(f"{path}: cannot be written ({reason}); make room there and resume") from None


def write_named(path: Path, text: str) -> None:
    """A file that is whole or not there, named where it cannot be written."""
    with naming(path):
        write_text(path, text)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The measurements of a run so far; a last line that was cut by a crash is left out."""
    path = folder / METRICS
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            measured = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(measured, dict) and {"step", "kind"} <= measured.keys():
            found.append(measured)
    return found


def add_final(folder: Path, step: int, values: Mapping[str, float], kind: str = FINAL) -> None:
    """Writes down how the published weights do, in the place of what was said before."""
    lines = [line for line in read_metrics(folder) if line["kind"] != kind]
    lines.append({"step": step, "kind": kind, **values})
    with naming(folder / METRICS):
        write_text(folder / METRICS, "".join(json.dumps(line) + "\n" for line in lines))


def draw_curves(folder: Path) -> Path:
    """Loss over steps in training and validation, BLEU beside it where it was measured."""
    from matplotlib.figure import Figure

    metrics = read_metrics(folder)
    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    for kind, marker in (("train", ""), ("validation", "o")):
        points = [(line["step"], line["loss"]) for line in metrics if line["kind"] == kind]
        if points:
            left.plot(*zip(*points, strict=True), label=f"{kind} loss", marker=marker)
    left.set(xlabel="step", ylabel="loss per token")
    scores = [
        (line["step"], line["bleu"]) for line in metrics if line["kind"] == "validation" and "bleu" in line
    ]
    if scores:
        right = left.twinx()
        right.plot(*zip(*scores, strict=True), color="tab:green", marker="s", label="validation BLEU")
        right.set(ylabel="BLEU", ylim=(0, None))
    if metrics:
        figure.legend(loc="outside upper center", ncols=3)
    path = folder / CURVES
    with naming(path):
        figure.savefig(path, dpi=120)
    return path
