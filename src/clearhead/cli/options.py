"""Options that several commands share, and how their values are read."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.errors import DataError, SettingsError

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
PAIRS = typer.Option(
    "--pairs",
    help="Pairs of sentences: a .tsv, .csv, .jsonl, .parquet or .tmx file (also .gz, .xz, .zst), two "
    "aligned files as SOURCE,TARGET, or the name of a shipped data set.",
    metavar="FILE",
)
Pairs = Annotated[str | None, PAIRS]
ManyPairs = Annotated[list[str] | None, PAIRS]
Texts = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        help="Running text: a file, a folder of them, .jsonl or .parquet (also .gz, .xz, .zst), or the name "
        "of a shipped text.",
        metavar="FILE",
    ),
]
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept at each step; 1 is greedy.")]
LengthPenalty = Annotated[float | None, typer.Option(help="Exponent of the length penalty.")]
TRANSLATOR = "A trained model's folder, or a built-in model: en-de, de-en, en-fr, fr-en"
MODEL = f"{TRANSLATOR}, shakespeare."
Model = Annotated[str | None, typer.Option(help=f"{TRANSLATOR}. Without: en-de of the package.", metavar="M")]
Device = Annotated[str, typer.Option(help=f"{', '.join(DEVICES[:-1])} or {DEVICES[-1]}.")]


def place(pairs: str) -> str | tuple[str, str]:
    """A file or data set, or the two aligned files of 'SOURCE,TARGET'."""
    parts = [pairs] if Path(pairs).exists() else pairs.split(",")
    if len(parts) > 2:
        raise SettingsError(f"--pairs {pairs}: give one file, or two aligned ones as SOURCE,TARGET")
    return (parts[0], parts[1]) if len(parts) == 2 else pairs


def chosen_device(name: str) -> "torch.device":
    """The device that a user named."""
    from clearhead.training.devices import choose_device

    if name not in DEVICES:
        raise SettingsError(f"--device {name}: is not one of {', '.join(DEVICES)}")
    return choose_device(name, setting="--device")  # pyright: ignore[reportArgumentType]


def rank() -> int:
    """Which of the processes that torchrun started this one is; only number 0 talks."""
    number = os.environ.get("RANK", "")
    return int(number) if number.isdecimal() else 0


def say(text: str = "") -> None:
    """Talk goes to stderr, so that stdout holds results alone."""
    if rank():
        return
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_default(name: str) -> None:
    """Which model is used where none was named, if it might be taken for a folder here."""
    from clearhead.tasks.zoo import is_taken

    if is_taken(name):
        say(f"model: {name} of the package; to use the folder {name} that is here, name it")


def put(line: str | dict[str, Any]) -> None:
    """A result: a line of text, or an object as a line of JSON; always UTF-8, as input is."""
    text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
    tell(f"{text}\n")


def tell(text: str) -> None:
    """A part of a result, shown at once."""
    if rank():
        return
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except OSError as error:
        # Python would complain again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # whoever reads our output has enough
            raise typer.Exit(0) from None
        raise DataError(f"standard output: cannot be written ({error.strerror}); send it elsewhere") from None
