"""Evaluation of classifiers: scores on test data, and whether the order and the context of words count."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.checkpoint import SETTINGS
from clearhead.config import parse_settings, read_toml
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.examples import Example, NoColumnError, check_examples, usual_names
from clearhead.errors import DataError
from clearhead.evaluation.classification import Confusion
from clearhead.inspection.explanation import finite
from clearhead.tasks.classification.data import check_known, class_numbers, count, read_labelled
from clearhead.tasks.classification.recipe import VALIDATION, LabelledConfig
from clearhead.tasks.evaluation import Evaluation

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


def held_out_texts(named: str | None, folder: Path) -> tuple[list[Example], int, str]:
    """The labelled texts of a file, else of the recipe's test files, else those held out; the number of blank
    ones, and where they are from."""
    data = read_toml(folder / SETTINGS).get("data")
    config = parse_settings(LabelledConfig, data if isinstance(data, dict) else {}, str(folder), "data")
    held_out = folder / VALIDATION
    files = [named] if named else list(config.test)
    if not files and held_out.exists():
        files, config = [str(held_out)], config.model_copy(update={"columns": ("label", "text")})
    if not files:
        raise DataError(f"{folder}: this folder has no held-out texts; name a file with --labels")
    check_examples(files)
    try:
        found, blank = read_labelled(files, config)
    except NoColumnError as error:
        columns = usual_names(error.names)
        if not columns:
            raise DataError(f"{error}; rename two of them to label and text") from None
        found, blank = read_labelled(files, config.model_copy(update={"columns": columns}))
    return found, blank, " and ".join(files)


def evaluate(
    logits: Logits,
    labels: Sequence[str],
    folder: Path,
    named: str | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Evaluation:
    """Accuracy, macro-F1, the confusion matrix, and whether order and context count."""
    texts, blank, where = held_out_texts(named, folder)
    check_known(texts, labels, where)
    correct = class_numbers(texts, labels)
    predicted = predict(logits, [example.text for example in texts], progress)
    confusion = Confusion.of(correct.tolist(), predicted.tolist(), len(labels))
    aware = awareness(logits, texts, labels)
    notes = [f"left out {count(blank)} without words or without a label"] if blank else []
    for one in confusion.absent:
        counted = (
            "leaves it out" if np.isnan(confusion.f1[one]) else "counts it as 0, because it is predicted"
        )
        notes.append(f"label '{labels[one]}' has no text in {where}; macro-F1 {counted}")
    lines = [
        f"{where}: {count(len(texts))}",
        f"accuracy {confusion.accuracy:.2%}",
        f"macro-F1 {confusion.macro_f1:.2%}",
        *confusion_table(confusion, labels),
        f"order: shuffling the words changes {aware.changed:.1%} of the predictions; accuracy "
        f"{aware.accuracy:.1%} becomes {aware.shuffled_accuracy:.1%} ({min(len(texts), SAMPLE):,} texts)",
    ]
    if aware.interaction is not None:
        lines.append(
            f"context: two halves together differ by {aware.interaction:.0%} from the sum of their evidence"
        )
    record = {
        "texts": len(texts),
        "accuracy": confusion.accuracy,
        "macro_f1": confusion.macro_f1,
        "f1": {label: finite(one) for label, one in zip(labels, confusion.f1.tolist(), strict=True)},
        "labels": list(labels),
        "confusion": confusion.counts.tolist(),
        "order": {"changed": aware.changed, "accuracy": aware.accuracy, "shuffled": aware.shuffled_accuracy},
        "context": aware.interaction,
        "blank": blank,
    }
    return Evaluation(tuple(lines), record, tuple(notes))


def predict(
    logits: Logits, texts: Sequence[str], progress: ProgressCallback = ignore_progress
) -> Int[np.ndarray, " texts"]:
    """The class of each text."""
    found = []
    progress(0, len(texts))
    for start in range(0, len(texts), CHUNK):
        found.append(logits(texts[start : start + CHUNK]).argmax(-1).cpu().numpy())
        progress(min(len(texts), start + CHUNK), len(texts))
    return np.concatenate(found)


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


def confusion_table(confusion: Confusion, labels: Sequence[str]) -> list[str]:
    """The confusion matrix as lines: a row for each label, a column for each prediction."""
    if len(labels) > MAX_PRINTED:
        return [f"confusion matrix of {len(labels)} labels: see --json"]
    names = [label if len(label) <= 12 else f"{label[:11]}…" for label in labels]
    cells = [[*map(str, row)] for row in confusion.counts.tolist()]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    left = max(map(len, names))
    head = " ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    rows = (
        f"{name:<{left}} {' '.join(f'{cell:>{width}}' for cell, width in zip(row, widths, strict=True))}"
        for name, row in zip(names, cells, strict=True)
    )
    return [f"confusion (rows: label, columns: prediction)\n{' ' * left} {head}", *rows]
