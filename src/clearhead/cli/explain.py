"""clearhead explain: attention and everything behind it, as a picture, a page or numbers."""

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import print_result, print_status, read_stdin
from clearhead.cli.options import (
    Device,
    Json,
    ModelArgument,
    check_explains,
    check_taken,
    device_named,
    given,
    option,
)
from clearhead.errors import SettingsError

if TYPE_CHECKING:
    from clearhead.inspection.explanation import Explanation

OUT_HELP = (
    "A picture (.png, .svg, .pdf), a stand-alone explorer page (.html), numbers (.json), or a folder for all "
    "pictures."
)
VIEW_HELP = (
    "The picture: relevance (of each token for a label), cross (word alignment), atlas (all heads), head, "
    "row (the arithmetic of one query), residual, lens, gates (of recurrent layers), gradient (at the "
    "source), beam, positions, neighbours, transitions (of n-grams); of images patches (where each head "
    "looks), rollout, distance, grid (of positions), filters, regions (of each written word); default: the "
    "most informative one."
)
PICTURES = (".png", ".svg", ".pdf")


def explain(
    context: typer.Context,
    model: ModelArgument,
    text: Annotated[
        str | None,
        typer.Argument(
            help="Text or image file to explain; reads a text from stdin if omitted.", metavar="TEXT"
        ),
    ] = None,
    out: Annotated[Path, option(OUT_HELP, "FILE")] = Path("explanation.png"),
    view: Annotated[str | None, option(VIEW_HELP, "NAME")] = None,
    attention: Annotated[
        str | None, option("encoder, decoder or cross; for atlas, head, row.", "NAME")
    ] = None,
    layer: Annotated[int | None, option("Layer, from 0; default: the most informative.", "N")] = None,
    head: Annotated[int | None, option("Head, from 0; default: the most informative.", "N")] = None,
    query: Annotated[int | None, option("Query position of the view row, from 0.", "N")] = None,
    to: Annotated[str | None, option("Target language, if several.", "LANG")] = None,
    target: Annotated[str | None, option("Explain this translation, not the model's.", "TEXT")] = None,
    tokens: Annotated[int | None, option("Tokens that a language model generates first.", "N")] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Show what happens inside a model, as pictures or numbers.

    A translator first translates the text, then one pass over both sentences is captured.

    \b
    Examples:
      clearhead explain en-de "I have never been so tired." --out words.svg
      clearhead explain en-de "I have never been so tired." --out words.html
      clearhead explain en-de "I closed the windows." --view atlas --out heads.png
      clearhead explain runs/mine "Once upon a time" --tokens 20 --out pictures/
      clearhead explain runs/photos cat.jpg --view rollout --out cat.png
      clearhead explain runs/reviews "Not bad." --view relevance --out why.png
    """
    from clearhead.explorer.explorable import input_of
    from clearhead.inspection.save import check_path
    from clearhead.tasks.load import load

    check_path(out)
    loaded: Any = load(model, device_named(device))
    check_explains(model, loaded)
    if text is None and input_of(type(loaded.model)) == "image":
        raise SettingsError(f"{model}: this model reads images; name an image file")
    text = read_stdin("text").strip("\n") if text is None else text
    options = given(to=to, target=target, tokens=tokens)
    taken = [name for name in ("to", "target", "tokens") if name in signature(loaded.explain).parameters]
    check_taken(context, model, loaded.task, options, taken)
    if target is not None and not loaded.tokenizer.encode(target):
        raise SettingsError("--target: is blank; pass a translation, or omit it to explain the model's own")
    explanation = loaded.explain(text, **options)
    if tokens is not None and (generated := explanation.settings["tokens"]) < tokens:
        print_status(
            f"--tokens {tokens}: only {generated} fit into the context of {loaded.context_length} tokens"
        )
    saved = explanation.save(out, view, attention=attention, layer=layer, head=head, query=query)
    _report(explanation, saved, view, json)


def _report(explanation: "Explanation", saved: Path, view: str | None, json: bool) -> None:
    from clearhead.inspection.pictures.draw import views

    if json:
        print_result({"text": explanation.text, "output": explanation.output, "file": str(saved)})
        return
    if explanation.output:
        print_status(f"{explanation.text} -> {explanation.output}")
    if explanation.anatomy.attentions:
        print_status(f"explicit and fused attention differ by at most {explanation.difference:.1e}")
    if saved.suffix in PICTURES:
        all_views = views(explanation)
        others = [name for name in all_views if name != (view or all_views[0])]
        if others:
            print_status(f"other pictures: --view {', '.join(others)}")
    print_result(str(saved))
