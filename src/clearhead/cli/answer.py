"""clearhead answer: answers to questions about a text."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import (
    in_batches,
    print_result,
    print_status,
    read_lines,
    read_stdin,
    utf8_arguments,
)
from clearhead.cli.options import Device, Json, device_named, option
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.tasks.question_answering.answering import Answer
    from clearhead.tasks.question_answering.model import QuestionAnsweringModel

# Lines of stdin that are answered at once.
LINES = 64
CONTEXT_HELP = "File with the text that holds the answers; - reads it from stdin."
THRESHOLD_HELP = (
    'Print no answer where the score of "no answer" is larger by this; default: the model\'s own.'
)


def answer(
    questions: Annotated[
        list[str] | None,
        typer.Argument(help="Questions; reads stdin line by line if omitted.", metavar="QUESTION"),
    ] = None,
    context: Annotated[str, option(CONTEXT_HELP, "FILE")] = ...,  # type: ignore[assignment]
    model: Annotated[str, option("Folder of a model that answers questions.", "MODEL", name="--model")] = ...,  # type: ignore[assignment]
    threshold: Annotated[float | None, option(THRESHOLD_HELP, "X")] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Answer questions about a text.

    Prints each answer, its score, and its position in the text: the first and one past the last character. A
    model that chooses among known answers prints no position. No answer is a blank line; blank lines of stdin
    are skipped.

    \b
    Examples:
      clearhead answer --model runs/squad --context article.txt "Who wrote it?"
      clearhead answer --model runs/squad --context - "Who?" < article.txt
      clearhead answer --model runs/squad --context a.txt --json < questions.txt
    """
    from clearhead.tasks.load import load_for

    if context == "-" and not questions:
        raise DataError("--context -: stdin holds the text, so pass the questions as arguments")
    text = read_stdin("context") if context == "-" else _read(Path(context))
    loaded: QuestionAnsweringModel = load_for("question_answering", model, device_named(device))
    given = utf8_arguments(questions, "question") if questions else _not_blank(read_lines())
    for batch in in_batches(given, LINES):
        for found in loaded.answer(batch, text, threshold=threshold):
            if json:
                print_result(_record(found))
            elif found.text:
                position = f"\t{found.start}-{found.end}" if found.start is not None else ""
                print_result(f"{' '.join(found.text.split())}\t{found.score:.3f}{position}")
            else:
                print_status(f"no answer ({found.score:.3f}): {found.question}")
                print_result("")


def _not_blank(lines: Iterable[str]) -> Iterable[str]:
    return (line for line in lines if line.strip())


def _read(path: Path) -> str:
    from clearhead.data.sources.streams import lines

    return "\n".join(lines(path))


def _record(found: "Answer") -> dict[str, Any]:
    return {
        "question": found.question,
        "answer": found.text,
        "score": round(found.score, 6),
        "start": found.start,
        "end": found.end,
    }
