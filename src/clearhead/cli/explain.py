"""clearhead explain: what a text does inside a model, as pictures or numbers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import MODEL, Device, Json, chosen_device, put, say
from clearhead.errors import DataError, SettingsError

if TYPE_CHECKING:
    from clearhead.inspection.explanation import Explanation

OUT = (
    "A .png, .svg or .pdf picture; the explorer's page with all of it inside, as .html; numbers, as .json; "
    "or a folder, which gets every picture there is."
)
VIEW = (
    "Which picture: cross (words aligned), atlas (all heads), head, row (one query's arithmetic), residual, "
    "lens, beam, positions, neighbours. Without: the most telling."
)


def explain(
    model: Annotated[str, typer.Argument(help=MODEL, metavar="M")],
    text: Annotated[str | None, typer.Argument(help="A text. Without: standard input.")] = None,
    out: Annotated[Path, typer.Option(help=OUT, metavar="FILE")] = Path("explanation.png"),
    view: Annotated[str | None, typer.Option(help=VIEW)] = None,
    attention: Annotated[
        str | None, typer.Option(help="encoder, decoder or cross; for atlas, head, row.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="From 0. Without: chosen by measurement.")] = None,
    head: Annotated[int | None, typer.Option(help="From 0. Without: chosen by measurement.")] = None,
    query: Annotated[int | None, typer.Option(help="The place whose arithmetic a row shows, from 0.")] = None,
    to: Annotated[
        str | None, typer.Option(help="The language to write, where a model writes several.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Explain this translation, not the model's own.")] = None,
    tokens: Annotated[int, typer.Option(help="So many tokens a language model adds first.")] = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Show what a text does inside a model: attention, and everything behind it.

    A translator's text is translated first; then one pass over both is looked into.

        clearhead explain en-de "I have never been so tired." --out words.svg

        clearhead explain en-de "I have never been so tired." --out words.html

        clearhead explain en-de "I closed the windows." --view atlas --attention encoder --out heads.png

        clearhead explain runs/mine "Once upon a time" --tokens 20 --out pictures/
    """
    from clearhead.inspection.save import check_path
    from clearhead.tasks.language.model import LanguageModel
    from clearhead.tasks.load import load
    from clearhead.tasks.translation.directions import check_target

    check_path(out)
    given = _read() if text is None else text
    loaded = load(model, chosen_device(device))
    if isinstance(loaded, LanguageModel):
        _refuse(model, "continues texts", {"--to": to, "--target": target})
        explanation = loaded.explain(given, tokens=tokens)
        room = explanation.settings["tokens"]
        if room < tokens:
            say(
                f"--tokens {tokens}: {room} fit behind the text into the model's context of {loaded.max_length}"
            )
    else:
        _refuse(model, "translates", {"--tokens": tokens or None})
        if target is not None and not loaded.tokenizer.encode(target):
            raise SettingsError("--target: is blank; give a translation, or leave it out for the model's own")
        check_target(loaded.directions, to, asked_by="--to")
        explanation = loaded.explain(given, to=to, target=target)
    written = explanation.save(out, view, attention=attention, layer=layer, head=head, query=query)
    _report(explanation, written, view, json)


def _refuse(model: str, does: str, options: dict[str, str | int | None]) -> None:
    """An option that is not for the model's kind is not passed over."""
    for name, value in options.items():
        if value is not None:
            raise SettingsError(f"{name} {value}: {model} {does}, so that is not for it; leave it out")


def _report(explanation: "Explanation", written: Path, view: str | None, json: bool) -> None:
    """What was said, and where the picture is."""
    from clearhead.inspection.pictures.draw import views

    if json:
        put({"text": explanation.text, "output": explanation.output, "file": str(written)})
        return
    if explanation.output:
        say(f"{explanation.text} -> {explanation.output}")
    say(f"explicit and fused pass differ by at most {explanation.difference:.1e}")
    if written.suffix in (".png", ".svg", ".pdf"):
        there = views(explanation)
        others = [one for one in there if one != (view or there[0])]
        say(f"other pictures: --view {', '.join(others)}")
    put(str(written))


def _read() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError("no text: give a text to explain, or a file with < FILE")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input: not UTF-8 (at byte {error.start}); write it as UTF-8") from None
