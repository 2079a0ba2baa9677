"""Evaluation of classifiers: scores on test data, and whether the order and the context of words count."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.columns import Columns, columns_option
from clearhead.data.sources.examples import (
    Example,
    NoColumnError,
    check_examples,
    table_names,
    usual_names,
)
from clearhead.errors import DataError
from clearhead.evaluation.classification import Calibration, ClassCounts, Confusion, LabelSets
from clearhead.inspection.explanation import finite
from clearhead.inspection.relevance import RANDOM, DeletionTest
from clearhead.tasks.classification.data import check_known, class_numbers, label_matrix, read_labelled
from clearhead.tasks.classification.recipe import VALIDATION, LabelledConfig
from clearhead.tasks.evaluation import Evaluation
from clearhead.wording import counted

Logits = Callable[[Sequence[str]], Float[Tensor, "texts classes"]]
# Texts by which awareness of order and context is measured, and classified at once.
SAMPLE, CHUNK = 1000, 1000
# Longer confusion matrices are left to --json.
MAX_PRINTED = 12


@dataclass(frozen=True)
class Awareness:
    """Whether a classifier notices order and context, measured on texts."""

    changed: float
    """Share of the predictions that change when the words are shuffled."""
    shuffled_accuracy: float
    accuracy: float
    """Of the same texts as they are."""
    interaction: float | None
    """How far the evidence of two halves together differs from their sum, relative to the evidence itself.
    None for a model that never finds any."""


def held_out_texts(
    named: str | None, folder: Path, columns: Columns | None = None
) -> tuple[list[Example], int, str]:
    """The labelled texts of a file, else of the recipe's test files, else those held out; the number of blank
    ones, and where they are from.

    Without `columns`, those of the recipe are read, or others that have usual names.
    """
    config, held_out = LabelledConfig.of_run(folder), folder / VALIDATION
    files = [named] if named else list(config.test)
    if not files and held_out.exists():
        files, config = [str(held_out)], config.model_copy(update={"columns": ("label", "text")})
    if not files:
        raise DataError(f"{folder}: this folder has no held-out texts; name a file with --labels")
    check_examples(files)
    numbered = not any(isinstance(one, str) for one in config.columns or ())
    usual = table_names(Path(named), config.encoding) if named and numbered else None
    config = config.model_copy(update={"columns": columns or usual or config.columns})
    try:
        found, blank = read_labelled(files, config)
    except NoColumnError as error:
        usual = usual_names(error.names)
        if columns or not usual:
            option = columns_option(error.likely)
            raise DataError(f"{error}; name those of label and text: {option}") from None
        found, blank = read_labelled(files, config.model_copy(update={"columns": usual}))
    return found, blank, " and ".join(files)


def evaluate(
    logits: Logits,
    labels: Sequence[str],
    folder: Path,
    named: str | None = None,
    progress: ProgressCallback = ignore_progress,
    multi_label: bool = False,
    columns: Columns | None = None,
) -> Evaluation:
    """Accuracy, F1, calibration, the confusion matrix, and whether order and context count."""
    texts, blank, where = held_out_texts(named, folder, columns)
    check_known(texts, labels, where, multi_label)
    found = all_logits(logits, [example.text for example in texts], progress)
    notes = [f"left out {counted(blank, 'text')} without words or without a label"] if blank else []
    measured = _label_sets(found, texts, labels) if multi_label else _classes(found, texts, labels)
    counts = measured.counts
    notes += absent_labels(counts, labels, f"has no text in {where}")
    lines = [f"{where}: {counted(len(texts), 'text')}", *measured.lines]
    record = {
        "texts": len(texts),
        **measured.record,
        "macro_f1": counts.macro_f1,
        "micro_f1": counts.micro_f1,
        "f1": _by_label(labels, counts.f1),
        "precision": _by_label(labels, counts.precision),
        "recall": _by_label(labels, counts.recall),
        "labels": list(labels),
        "calibration_error": measured.calibration.error,
        "blank": blank,
    }
    if not multi_label:
        more, values = _aware(logits, texts, labels)
        lines, record = [*lines, *more], record | values
    return Evaluation(tuple(lines), record, tuple(notes))


def absent_labels(counts: ClassCounts, labels: Sequence[str], problem: str) -> list[str]:
    """A note on each label without examples, and what macro-F1 makes of it."""
    found = []
    for one in counts.absent:
        counts_as = "leaves it out" if np.isnan(counts.f1[one]) else "counts it as 0, because it is predicted"
        found.append(f"label '{labels[one]}' {problem}; macro-F1 {counts_as}")
    return found


def sample_texts(named: str | None, folder: Path, count: int, columns: Columns | None = None) -> list[str]:
    """Some of the texts that a model is evaluated on, spread evenly over them."""
    texts, _, _ = held_out_texts(named, folder, columns)
    step = max(1, len(texts) // count)
    return [example.text for example in texts[::step][:count]]


def deletion_lines(test: DeletionTest) -> list[str]:
    """How far the probability of the label falls when the tokens that each method names are removed."""
    shares = ", ".join(f"{share:.0%}" for share in test.shares)
    head = (
        f"explanations: removing {shares} of the tokens, the most relevant first, lowers the probability of "
        f"the label on average by ({counted(len(test.probability), 'text')})"
    )
    rows = []
    for method in test.methods:
        advantage, error = test.advantage(method)
        rows.append(
            f"  {method}: {100 * test.comprehensiveness(method):.1f} points, {100 * advantage:+.1f} ± "
            f"{100 * error:.1f} against a random order"
        )
    return [head, *rows, f"  {RANDOM}: {100 * test.comprehensiveness(RANDOM):.1f} points"]


@dataclass(frozen=True)
class _Measured:
    """Scores of predictions, as lines and as a record."""

    lines: list[str]
    record: dict[str, Any]
    counts: ClassCounts
    calibration: Calibration


def _classes(logits: Tensor, texts: Sequence[Example], labels: Sequence[str]) -> _Measured:
    """The scores of one class per text."""
    correct, predicted = class_numbers(texts, labels), logits.argmax(-1).numpy()
    confusion = Confusion.of(correct.tolist(), predicted.tolist(), len(labels))
    calibration = Calibration.of(logits.softmax(-1).amax(-1).double().numpy(), predicted == correct)
    lines = [
        f"accuracy {confusion.accuracy:.2%}",
        f"macro-F1 {confusion.macro_f1:.2%}",
        _calibration_line(calibration),
        *_scores_table(confusion.by_class, labels),
        *confusion_table(confusion, labels),
    ]
    record = {"accuracy": confusion.accuracy, "confusion": confusion.counts.tolist()}
    return _Measured(lines, record, confusion.by_class, calibration)


def _label_sets(logits: Tensor, texts: Sequence[Example], labels: Sequence[str]) -> _Measured:
    """The scores of any number of labels per text, each of which is predicted from one half on."""
    correct, probabilities = label_matrix(texts, labels), logits.sigmoid().double().numpy()
    found = LabelSets(correct, probabilities >= 0.5)
    calibration = Calibration.of(probabilities.ravel(), correct.ravel())
    counts = found.by_class
    lines = [
        f"exact match {found.accuracy:.2%}",
        f"micro-F1 {counts.micro_f1:.2%}",
        f"macro-F1 {counts.macro_f1:.2%}",
        _calibration_line(calibration),
        *_scores_table(counts, labels),
    ]
    return _Measured(lines, {"accuracy": found.accuracy}, counts, calibration)


def _calibration_line(found: Calibration) -> str:
    return f"calibration error {found.error:.2%} (expected, {len(found.counts)} bins)"


def _by_label(labels: Sequence[str], values: np.ndarray) -> dict[str, float | None]:
    return {label: finite(value) for label, value in zip(labels, values.tolist(), strict=True)}


def _aware(
    logits: Logits, texts: Sequence[Example], labels: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """Whether order and context count, as lines and as a record."""
    aware = awareness(logits, texts, labels)
    lines = [
        f"order: shuffling the words changes {aware.changed:.1%} of the predictions; accuracy "
        f"{aware.accuracy:.1%} becomes {aware.shuffled_accuracy:.1%} ({min(len(texts), SAMPLE):,} texts)",
    ]
    if aware.interaction is not None:
        lines.append(
            f"context: two halves together differ by {aware.interaction:.0%} from the sum of their evidence"
        )
    order = {"changed": aware.changed, "accuracy": aware.accuracy, "shuffled": aware.shuffled_accuracy}
    return lines, {"order": order, "context": aware.interaction}


def all_logits(
    logits: Logits, texts: Sequence[str], progress: ProgressCallback = ignore_progress
) -> Float[Tensor, "texts classes"]:
    """The logits of all texts, on the CPU."""
    found = []
    progress(0, len(texts))
    for start in range(0, len(texts), CHUNK):
        found.append(logits(texts[start : start + CHUNK]).cpu())
        progress(min(len(texts), start + CHUNK), len(texts))
    return torch.cat(found)


def awareness(logits: Logits, texts: Sequence[Example], labels: Sequence[str], seed: int = 0) -> Awareness:
    """Measures whether order and context count, on texts spread evenly over those given."""
    step = max(1, len(texts) // SAMPLE)
    sample = list(texts[::step][:SAMPLE])
    correct, words = class_numbers(sample, labels), [example.text.split() for example in sample]
    random = np.random.default_rng(seed)
    shuffled = [" ".join(random.permutation(row).tolist()) for row in words]
    whole = logits([" ".join(row) for row in words])
    predicted, other = whole.argmax(-1), logits(shuffled).argmax(-1)
    halves = [logits([" ".join(row[part(len(row))]) for row in words]) for part in (_first, _second)]

    def evidence(found: Tensor) -> Tensor:
        return found.gather(1, predicted[:, None])[:, 0] - found.mean(-1)

    first, second, whole_text = (evidence(found) for found in (*halves, whole))
    nothing = evidence(logits([""]).expand_as(whole))
    interaction = (whole_text - first - second + nothing).abs().mean() / (whole_text - nothing).abs().mean()
    return Awareness(
        changed=float((predicted != other).float().mean()),
        shuffled_accuracy=float((other.cpu().numpy() == correct).mean()),
        accuracy=float((predicted.cpu().numpy() == correct).mean()),
        interaction=finite(float(interaction)),
    )


def _first(words: int) -> slice:
    return slice(words // 2)


def _second(words: int) -> slice:
    return slice(words // 2, None)


def _scores_table(counts: ClassCounts, labels: Sequence[str]) -> list[str]:
    """Precision, recall and F1 of each label as lines."""
    if len(labels) > MAX_PRINTED:
        return [f"scores of each of {len(labels)} labels: see --json"]
    names = _short(labels)
    left = max(map(len, names))
    rows = zip(names, counts.precision, counts.recall, counts.f1, counts.actual, strict=True)
    head = f"{'':<{left}} precision  recall      F1   texts"
    return [head] + [
        f"{name:<{left}} {precision:9.1%} {recall:7.1%} {f1:7.1%} {actual:7,}".replace("nan%", "   -")
        for name, precision, recall, f1, actual in rows
    ]


def _short(labels: Sequence[str]) -> list[str]:
    return [label if len(label) <= 12 else f"{label[:11]}…" for label in labels]


def confusion_table(confusion: Confusion, labels: Sequence[str]) -> list[str]:
    """The confusion matrix as lines: a row for each label, a column for each prediction."""
    if len(labels) > MAX_PRINTED:
        return [f"confusion matrix of {len(labels)} labels: see --json"]
    names = _short(labels)
    cells = [[*map(str, row)] for row in confusion.counts.tolist()]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    left = max(map(len, names))
    head = " ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    rows = (
        f"{name:<{left}} {' '.join(f'{cell:>{width}}' for cell, width in zip(row, widths, strict=True))}"
        for name, row in zip(names, cells, strict=True)
    )
    return [f"confusion (rows: label, columns: prediction)\n{' ' * left} {head}", *rows]
