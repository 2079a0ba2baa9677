"""clearhead fill: words for the masks of a text."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import in_batches, print_result, read_lines, utf8_arguments
from clearhead.cli.options import Device, Json, device_named, option

if TYPE_CHECKING:
    from clearhead.tasks.masked.model import Filled, MaskedModel

# Lines of stdin that are filled at once.
LINES = 256


def fill(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts with [MASK]; reads stdin line by line if omitted.", metavar="TEXT"),
    ] = None,
    model: Annotated[str, option("Folder of a masked language model.", "MODEL", name="--model")] = ...,  # type: ignore[assignment]
    top: Annotated[int, option("Candidates for each mask.", "N", min=1)] = 5,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Fill the masks of texts, and list the most likely tokens.

    Write [MASK] where a token is missing; a text may have several. ▁ before a token stands for a space.
    Blank lines stay blank.

    \b
    Examples:
      clearhead fill --model runs/bert "The [MASK] drinks milk."
      clearhead fill --model runs/bert --top 10 "A [MASK] film with a [MASK] ending."
      clearhead fill --model runs/bert --json < masked.txt
    """
    from clearhead.tasks.load import load_for

    masked: MaskedModel = load_for("masked", model, device_named(device))
    for batch in in_batches(utf8_arguments(texts, "text") if texts else read_lines(), LINES):
        found = iter(masked.fill([text for text in batch if text.strip()], top=top))
        for text in batch:
            _print(next(found) if text.strip() else None, json)


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
