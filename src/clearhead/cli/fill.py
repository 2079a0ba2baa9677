"""clearhead fill: words for the masks of a text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import in_batches, print_result, print_status, read_lines, utf8_arguments
from clearhead.cli.options import Device, Json, device_named, option
from clearhead.errors import DataError, TextError
from clearhead.wording import counted

if TYPE_CHECKING:
    from clearhead.tasks.masked.model import Filled, MaskedModel

# Lines of stdin that are filled at once.
LINES = 256


def fill(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts with [MASK]; reads stdin line by line if omitted.", metavar="TEXT"),
    ] = None,
    model: Annotated[
        str, option("Built-in name, or folder of a masked model.", "MODEL", name="--model")
    ] = "masked-en",
    top: Annotated[int, option("Candidates for each mask.", "N", min=1)] = 5,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Fill the masks of texts, and list the most likely tokens.

    Write [MASK] where a token is missing; a text may have several. ▁ before a token stands for a space.
    Blank lines stay blank. A text that cannot be filled is reported, the others are filled, and the exit code
    is 2.

    \b
    Examples:
      clearhead fill "The [MASK] drinks milk."
      clearhead fill --model runs/bert --top 10 "A [MASK] film, a [MASK] end."
      clearhead fill --model runs/bert --json < masked.txt
    """
    from clearhead.tasks.load import load_for

    masked: MaskedModel = load_for("masked", model, device_named(device))
    number, failed, alone = 0, 0, texts is not None and len(texts) == 1
    for batch in in_batches(utf8_arguments(texts, "text") if texts else read_lines(), LINES):
        for found in _filled(masked, batch, top):
            number += 1
            if isinstance(found, TextError):
                if alone:
                    raise found
                failed += 1
                # A text that is filled alone is the first of its list.
                print_status(f"clearhead: text {number}: {str(found).removeprefix('text 1: ')}")
                continue
            _print(found, json)
    if failed:
        raise DataError(f"{counted(failed, 'text')} could not be filled; all others are filled")


def _filled(masked: "MaskedModel", batch: list[str], top: int) -> "Iterator[Filled | TextError | None]":
    """The filled texts of a batch, None where one is blank, and what is wrong with the others."""
    try:
        found = iter(masked.fill([text for text in batch if text.strip()], top=top))
        yield from [next(found) if text.strip() else None for text in batch]
    except TextError as error:
        if len(batch) == 1:
            yield error
            return
        for text in batch:
            yield from _filled(masked, [text], top)


def _print(found: "Filled | None", json: bool) -> None:
    if found is None:
        print_result({"text": "", "filled": "", "masks": []} if json else "")
        return
    if json:
        print_result(_record(found))
        return
    print_result(found.filled)
    for mask in found.masks:
        print_result("  " + "  ".join(f"{one.token} {one.probability:.3f}" for one in mask))


def _record(found: "Filled") -> dict[str, Any]:
    masks = [
        [{**vars(one), "probability": round(one.probability, 4)} for one in mask] for mask in found.masks
    ]
    return {"text": found.text, "filled": found.filled, "masks": masks}
