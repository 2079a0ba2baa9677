"""Files that a run writes beside the model: metrics.jsonl, TensorBoard, curves."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clearhead.errors import TrainingError
from clearhead.evaluation.metric import Metric
from clearhead.files import write_text

METRICS, CURVES = "metrics.jsonl", "curves.png"
# Metrics of the published weights, on validation and on test data.
FINAL, TEST = "final", "test"


class Records:
    """Appends metrics to files; on resume, drops those after the saved step, which will be written again."""

    def __init__(self, folder: Path, step: int):
        # Slow to import, and only training needs it.
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
        # Everything was flushed when it was added, so a full disk was reported then.
        for writer in (self._file, self._board):
            with suppress(OSError):
                writer.close()


class NoRecords:
    """Records of the ranks above 0, which write nothing."""

    def add(self, step: int, kind: str, values: Mapping[str, float | None]) -> None: ...

    def close(self) -> None: ...


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A failed write becomes an error that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise TrainingError(f"{path}: cannot be written ({reason}); free some space and resume") from None


def write_named(path: Path, text: str) -> None:
    """Writes a file atomically; an error names it."""
    with naming(path):
        write_text(path, text)


def write_examples(path: Path, examples: Iterable[Any]) -> None:
    """Writes named tuples as JSON Lines, unless the file is there."""
    if not path.exists():
        lines = (json.dumps(example._asdict(), ensure_ascii=False) for example in examples)
        write_named(path, "".join(f"{line}\n" for line in lines))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run so far; lines that a crash cut off are skipped."""
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
    """Records the metrics of the published weights, replacing earlier ones."""
    lines = [line for line in read_metrics(folder) if line["kind"] != kind]
    lines.append({"step": step, "kind": kind, **values})
    with naming(folder / METRICS):
        write_text(folder / METRICS, "".join(json.dumps(line) + "\n" for line in lines))


def draw_curves(folder: Path, metrics: Sequence[Metric]) -> Path:
    """Draws the loss over the steps, and the last of the metrics where higher is better."""
    from matplotlib.figure import Figure

    records = read_metrics(folder)
    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()

    def curve(kind: str, name: str) -> list[tuple[float, ...]]:
        known = (line for line in records if line["kind"] == kind and name in line)
        return list(zip(*((line["step"], line[name]) for line in known), strict=True))

    for kind, marker in (("train", ""), ("validation", "o")):
        if points := curve(kind, "loss"):
            left.plot(*points, label=f"{kind} loss", marker=marker)
    left.set(xlabel="step", ylabel="loss per token")
    for metric in [one for one in metrics if one.higher_is_better][-1:]:
        if points := curve("validation", metric.name):
            right = left.twinx()
            right.plot(*points, color="tab:green", marker="s", label=f"validation {metric.label}")
            right.set(ylabel=metric.label, ylim=(0, None))
    if records:
        figure.legend(loc="outside upper center", ncols=3)
    path = folder / CURVES
    with naming(path):
        figure.savefig(path, dpi=120)
    return path
