"""clearhead classify: the labels of texts and images."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import in_batches, print_result, print_status, read_lines, utf8_arguments
from clearhead.cli.options import Device, Json, device_named, given, option
from clearhead.errors import DataError, SettingsError
from clearhead.wording import counted

if TYPE_CHECKING:
    from clearhead.tasks.classification.model import Classification, ClassificationModel

# Lines of stdin that are classified at once.
LINES = 256
SHOWN = 8
"""Parts of a text that --explain names."""


def classify(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts, or image files; reads stdin line by line if omitted.", metavar="TEXT|IMAGE"
        ),
    ] = None,
    model: Annotated[str, option("Folder of a classifier.", "MODEL", name="--model")] = ...,  # type: ignore[assignment]
    explain: Annotated[bool, option("Name the words or patches that decided.", name="--explain")] = False,
    threshold: Annotated[
        float | None, option("Probability of a label that is given, if a text may have several.", "P")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Print the label of each text or image and its probability.

    If a text may have several labels, all from --threshold on (0.5 by default) are printed. Of
    several images, each line begins with the path.

    With --explain, a bag of words names the n-grams with the most weight; a sequence model the words whose
    absence changes the probability most; an image classifier the patches, by row and column.
    Words outside the vocabulary are reported. Blank lines stay blank. An image that cannot be read is
    reported, the others are classified, and the exit code is 2.

    \b
    Examples:
      clearhead classify --model runs/reviews "A wonderful film."
      clearhead classify --model runs/reviews --explain "Not bad at all."
      clearhead classify --model runs/reviews --json < reviews.txt
      clearhead classify --model runs/photos cat.jpg dog.png
      ls photos/*.jpg | clearhead classify --model runs/photos --json
    """
    from clearhead.tasks.load import load_for

    classifier: ClassificationModel = load_for("classification", model, device_named(device))
    if threshold is not None and not classifier.multi_label:
        raise SettingsError(f"--threshold: {model} gives each text one label; leave it out")
    options, problems = given(threshold=threshold), []
    reads_images = classifier.task == "image_classification"
    named = reads_images and (not texts or len(texts) > 1)
    for batch in in_batches(utf8_arguments(texts, "text") if texts else read_lines(), LINES):
        for found in _classified(classifier, batch, options, named, problems):
            blank = not found.text.strip()
            evidence = classifier.evidence(found.text) if explain and not blank else {}
            if json:
                print_result(_record(found, evidence, "image" if reads_images else "text"))
                continue
            if blank:
                print_result("")
                continue
            if found.unknown:
                print_status(f"not in the model's vocabulary: {', '.join(found.unknown[:SHOWN])}")
            print_result(f"{found.text}\t{_line(found)}" if named else _line(found))
            for part, added in list(evidence.items())[:SHOWN]:
                print_result(f"  {added:+.2f}  {part}")
    if problems:
        raise DataError(f"{counted(len(problems), 'image')} could not be read; all others have a label")


def _classified(
    classifier: "ClassificationModel",
    batch: list[str],
    options: dict[str, Any],
    named: bool,
    problems: list[str],
) -> Iterator["Classification"]:
    """The labels of a batch; of several images, those that cannot be read are reported and left out."""
    from clearhead.tasks.classification.model import Classification

    try:
        found = iter(classifier.classify([text for text in batch if text.strip()], **options))
        yield from (next(found) if text.strip() else Classification(text, "", {}) for text in batch)
    except DataError as error:
        if len(batch) > 1:
            for one in batch:
                yield from _classified(classifier, [one], options, named, problems)
            return
        if not named:
            raise
        problems.append(str(error))
        print_status(f"clearhead: {error}")


def _line(found: "Classification") -> str:
    """The label and its probability; if there may be several, each with its own."""
    labels = (found.label,) if found.labels is None else found.labels
    return "\t".join(f"{label}\t{found.probabilities[label]:.3f}" for label in labels) or "(no label)"


def _record(found: "Classification", evidence: dict[str, float], name: str) -> dict[str, Any]:
    """A classification for JSON; `name` is that of what was classified, a text or an image."""
    probabilities = found.probabilities if found.text.strip() else {}
    record: dict[str, Any] = {name: found.text, "label": found.label if probabilities else ""}
    if found.labels is not None:
        record["labels"] = list(found.labels) if probabilities else []
    record |= {
        "probabilities": {label: round(value, 6) for label, value in probabilities.items()},
        "unknown": list(found.unknown),
    }
    return {**record, "evidence": evidence} if evidence else record
