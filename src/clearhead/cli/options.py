"""Options that several commands share."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.completion import language_codes, model_names, recipe_names, shipped_pairs, shipped_texts
from clearhead.cli.console import print_status
from clearhead.errors import ModelError, SettingsError

if TYPE_CHECKING:
    import torch

    from clearhead.models.engine import Precision

TRANSLATOR, MULTILINGUAL, LANGUAGE_MODEL = "en-de", "en-de-fr", "shakespeare"
"""The built-in models that commands use by default."""
MODEL_HELP = "Model folder or built-in name; clearhead models lists them."
PAIRS_HELP = (
    "Sentence pairs: a .tsv, .csv, .json, .jsonl, .parquet, .tmx, .xliff or .po file (also .gz, .xz, .zst), "
    "two aligned files as SOURCE,TARGET (text, or .srt), or the name of a shipped data set."
)
TEXT_HELP = (
    "Text: a file or folder, .json, .jsonl, .parquet or .srt (also .gz, .xz, .zst), chats and instructions "
    "too, or the name of a shipped text."
)
LABELS_HELP = (
    "Labelled texts: a .tsv, .csv, .jsonl or .parquet file with columns 'label' and 'text', or lines of a "
    "label, a space and a text."
)
QUESTIONS_HELP = (
    "Questions about texts: a .json file in SQuAD's format, a .jsonl file with context, question and "
    "answers, or bAbI's stories."
)
CAPTIONS_HELP = (
    "Captions: lines of an image's file name, a tab or comma and a caption, or .jsonl with 'image' and "
    "'caption'; the images are beside it."
)
IMAGES_HELP = "Labelled images: a folder with one folder per class, or an .npz or .parquet file."
DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("fp32", "bf16", "int8")
COMPLETED = {"MODEL": model_names, "RECIPE": recipe_names, "LANG": language_codes}
"""What the shell completes, by metavar."""


def option(help: str, metavar: str | None = None, name: str | None = None, **more: Any) -> Any:
    """An option of a command; the metavar decides what the shell completes.

    `name` is needed if it differs from the parameter's. It is also needed if the metavar is the parameter's
    name in capitals, because typer 0.27 then takes the metavar for the name.
    """
    more = {"autocompletion": COMPLETED.get(metavar or ""), **more}
    return typer.Option(*filter(None, [name]), help=help, metavar=metavar, **more)


def argument(help: str, metavar: str, **more: Any) -> Any:
    """An argument of a command; the metavar decides what the shell completes."""
    return typer.Argument(help=help, metavar=metavar, **{"autocompletion": COMPLETED.get(metavar), **more})


ModelArgument = Annotated[str, argument(MODEL_HELP, "MODEL")]
Json = Annotated[bool, option("Print one JSON object per line.", name="--json")]
Pairs = Annotated[str | None, option(PAIRS_HELP, "FILE", name="--pairs", autocompletion=shipped_pairs)]
PairsList = Annotated[
    list[str] | None, option(PAIRS_HELP, "FILE", name="--pairs", autocompletion=shipped_pairs)
]
Texts = Annotated[list[str] | None, option(TEXT_HELP, "FILE", name="--text", autocompletion=shipped_texts)]
Labels = Annotated[str | None, option(LABELS_HELP, "FILE", name="--labels")]
LabelsList = Annotated[list[str] | None, option(LABELS_HELP, "FILE", name="--labels")]
QuestionsList = Annotated[list[str] | None, option(QUESTIONS_HELP, "FILE", name="--questions")]
CaptionsList = Annotated[list[str] | None, option(CAPTIONS_HELP, "FILE", name="--captions")]
ImagesList = Annotated[list[str] | None, option(IMAGES_HELP, "FOLDER", name="--images")]
Beam = Annotated[int | None, option("Beam size; 1 is greedy search.", "N")]
LengthPenalty = Annotated[float | None, option("Exponent of the length penalty.", "X")]
RepetitionPenalty = Annotated[float, option("Above 1, repeated tokens become less likely.", "X")]
ShortlistFile = Annotated[
    Path | None, option("Vocabulary shortlist made by clearhead shortlist.", "FILE", name="--shortlist")
]
TopK = Annotated[int | None, option("Sample from the K most likely tokens.", "K")]
Device = Annotated[
    str, option("Where to compute: auto, cpu or cuda.", "NAME", autocompletion=lambda: list(DEVICES))
]

PrecisionName = Annotated[
    str,
    option(
        "Precision of decoding: fp32, bf16 or int8.",
        "NAME",
        name="--precision",
        autocompletion=lambda: PRECISIONS,
    ),
]


def pairs_location(pairs: str) -> str | tuple[str, str]:
    """A file or data set, or the two files of 'SOURCE,TARGET'."""
    parts = [pairs] if Path(pairs).exists() else pairs.split(",")
    if len(parts) > 2:
        raise SettingsError(f"--pairs {pairs}: pass one file, or two aligned files as SOURCE,TARGET")
    return (parts[0], parts[1]) if len(parts) == 2 else pairs


def columns_named(columns: str) -> tuple[int | str, int | str]:
    """The two columns of 'A,B', by name or by number from 0."""
    names = [name.strip() for name in columns.split(",")]
    if len(names) != 2 or not all(names):
        raise SettingsError(f"--columns {columns}: name two, for example --columns source,target")
    first, second = (int(name) if name.isdecimal() else name for name in names)
    return first, second


def device_named(name: str) -> "torch.device":
    """The device for a value of --device."""
    from clearhead.training.devices import choose_device

    if name not in DEVICES:
        raise SettingsError(f"--device {name}: is not one of {', '.join(DEVICES)}")
    return choose_device(name, setting="--device")  # pyright: ignore[reportArgumentType]


def precision_named(name: str) -> "Precision":
    """The precision for a value of --precision."""
    if name not in PRECISIONS:
        raise SettingsError(f"--precision {name}: is not one of {', '.join(PRECISIONS)}")
    return name  # pyright: ignore[reportReturnType]


def print_default(name: str) -> None:
    """Say which default model is used if a folder here has the same name."""
    from clearhead.tasks.zoo import is_folder

    if is_folder(name):
        print_status(f"using the built-in model {name}; to use the folder {name} instead, pass its name")


def given(**options: Any) -> dict[str, Any]:
    """The options that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def check_explains(name: str, model: Any) -> None:
    """Raise ModelError, with the right command, for a model that cannot show what happens in it."""
    if not hasattr(model, "explain"):
        from clearhead.tasks import TASKS

        kind, command = model.model.config.kind, TASKS[model.task].command
        raise ModelError(f"{name}: a model of kind '{kind}' has no explanations; use {command}")


def check_taken(
    context: typer.Context, model: str, task: str, options: Iterable[str], taken: Sequence[str]
) -> None:
    """Raise SettingsError for an option that models of this task do not take."""
    from clearhead.tasks import TASKS

    written = {str(param.name): param.opts[0] for param in context.command.params}
    for name in options:
        if name not in taken:
            allowed = ", ".join(written[name] for name in taken)
            does = TASKS[task].does
            raise SettingsError(f"{written[name]}: {model} {does}; it takes {allowed or 'no such option'}")
