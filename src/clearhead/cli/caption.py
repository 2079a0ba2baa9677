"""clearhead caption: what images show, in words."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import in_batches, print_result, print_status, read_lines
from clearhead.cli.options import Beam, Device, Json, LengthPenalty, device_named, option
from clearhead.errors import ClearheadError, DataError
from clearhead.wording import counted

if TYPE_CHECKING:
    from clearhead.tasks.captioning.model import CaptionModel, GeneratedCaption

# Images that are decoded and described at once.
IMAGES = 64


def caption(
    images: Annotated[
        list[str] | None,
        typer.Argument(help="Image files; reads their paths from stdin if omitted.", metavar="IMAGE"),
    ] = None,
    model: Annotated[str, option("Folder of a captioner.", "MODEL", name="--model")] = ...,  # type: ignore[assignment]
    beam: Beam = None,
    nbest: Annotated[int, option("Captions per image, best first.", "N")] = 1,
    length_penalty: LengthPenalty = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Describe images.

    Prints a line for each image, in order: its caption, after its path if there are several images. With
    --nbest N, prints N lines of score, tab and caption. An image that cannot be read is reported, the others
    are described, and the exit code is 2.

    \b
    Examples:
      clearhead caption --model runs/flickr8k dog.jpg
      clearhead caption --model runs/flickr8k --beam 5 --nbest 3 dog.jpg
      ls photos/*.jpg | clearhead caption --model runs/flickr8k --json
    """
    from clearhead.tasks.captioning.model import CaptionOptions
    from clearhead.tasks.load import load_for

    captioner: CaptionModel = load_for("captioning", model, device_named(device))
    options, failed, named = CaptionOptions(beam, nbest, length_penalty), 0, not images or len(images) > 1
    options.resolved(captioner.search)
    for batch in in_batches(images or (line for line in read_lines() if line.strip()), IMAGES):
        paths, decoded = [], []
        for path in batch:
            try:
                decoded.append(captioner.processor.image.square(path))
            except ClearheadError as error:
                if not named:
                    raise
                print_status(f"clearhead: {error}")
                failed += 1
            else:
                paths.append(path)
        found = captioner.caption(decoded, beam=beam, nbest=nbest, length_penalty=length_penalty)
        for path, one in zip(paths, found, strict=True):
            _print(path if named else "", path, one, nbest, json)
    if failed:
        raise DataError(f"{counted(failed, 'image')} could not be read; all others are described")


def _print(label: str, path: str, found: "GeneratedCaption", nbest: int, json: bool) -> None:
    if json:
        record: dict[str, Any] = {"image": path, "caption": found.text, "score": found.score}
        if nbest > 1:
            record["nbest"] = [{"caption": one.text, "score": one.score} for one in found.nbest]
        if not found.complete:
            record["complete"] = False
        print_result(record)
        return
    before = f"{label}\t" if label else ""
    for one in found.nbest if nbest > 1 else [found]:
        score = f"{one.score:.4f}\t" if nbest > 1 else ""
        print_result(f"{before}{score}{one.text}")
