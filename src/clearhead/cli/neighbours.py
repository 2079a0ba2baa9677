"""clearhead neighbours: the words nearest to a word, to a sum of words, or to a word in a text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import print_result, print_status, utf8_arguments
from clearhead.cli.options import (
    MODEL_HELP,
    MULTILINGUAL,
    Device,
    Json,
    device_named,
    given,
    option,
    print_default,
)
from clearhead.errors import SettingsError

if TYPE_CHECKING:
    from clearhead.inspection.vectors import Neighbour, WordInText

SCORE_HELP = "With --in and word vectors: the score of the attention, scaled (default), dot or cosine."


def neighbours(
    words: Annotated[list[str], typer.Argument(help="A word, or words to add up.", metavar="WORD")],
    minus: Annotated[list[str] | None, option("Word to subtract; may be repeated.", "WORD")] = None,
    text: Annotated[
        list[str] | None, option("Text that holds the word; may be repeated.", "TEXT", name="--in")
    ] = None,
    model: Annotated[
        str | None, option(f"{MODEL_HELP} Default: {MULTILINGUAL}.", "MODEL", name="--model")
    ] = None,
    n: Annotated[int, option("Number of neighbours.", "N", name="--n", min=1)] = 10,
    score: Annotated[str | None, option(SCORE_HELP, "NAME")] = None,
    out: Annotated[Path | None, option("Also draw a map: .png, .svg or .pdf.", "FILE")] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Find the words nearest to a word, by cosine.

    Several words are added up, and --minus subtracts: king woman --minus man is an analogy. A Transformer
    gives the tokens nearest to the word's embedding.

    --in compares the static vector with that of the word in a text. A Transformer gives its state after the
    first stack; word vectors are mixed by one step of attention over the words of the text.

    \b
    Examples:
      clearhead neighbours windows
      clearhead neighbours bank --in "He sat on the bank of the river."
      clearhead neighbours king woman --minus man --model runs/vectors
      clearhead neighbours apple --in "an apple pie" --model runs/vectors
      clearhead neighbours king queen --model runs/vectors --out map.png
    """
    from clearhead.explorer.vectors import TokenVectors
    from clearhead.inspection.pictures.picture import check_picture
    from clearhead.inspection.pictures.word_map import neighbour_map
    from clearhead.tasks.load import load, load_built_in

    words, minus, texts = (list(utf8_arguments(one or (), "word")) for one in (words, minus, text))
    if texts and (len(words) > 1 or minus):
        raise SettingsError("--in: compares one word; pass a single WORD, without --minus")
    if out:
        check_picture(out)
    if model is None:
        print_default(MULTILINGUAL)
    where = device_named(device)
    loaded: Any = load_built_in(MULTILINGUAL, where) if model is None else load(model, where)
    vectors = loaded if hasattr(loaded, "in_text") else TokenVectors(loaded)
    if score and vectors is not loaded:
        raise SettingsError(f"--score {score}: needs word vectors; a Transformer has its own attention")
    options = given(score=score)
    near = vectors.neighbours(words, minus, n)
    _note_pieces(vectors, (*words, *minus))
    contexts = [vectors.in_text(words[0], text, n, **options) for text in texts]
    if json:
        inside = [{"text": one.text, **_record(one.near), "weights": _weights(one)} for one in contexts]
        print_result({"words": words, "minus": minus, **_record(near), "contexts": inside})
    else:
        _print("without context" if contexts else "", near)
        for one in contexts:
            _print(f"in “{one.text}”", one.near)
            if one.weights:
                shown = (f"{word} {weight:.2f}" for word, weight in one.weights)
                print_result(f"  attends to: {', '.join(shown)}")
    if out:
        points = [(word, vectors.vector(word)) for word in (*words, *minus)]
        points += [(f"{words[0]} in “{one.text}”", one.vector) for one in contexts]
        shown = [*near, *(found for one in contexts for found in one.near)]
        neighbour_map(vectors.name, vectors.matrix, points, shown).save(out)
        print_status(f"the map is in {out}")


def _note_pieces(vectors: Any, words: Sequence[str]) -> None:
    """Say which words are several tokens of a Transformer; those of word vectors are always whole."""
    for word in words if hasattr(vectors, "encode") else ():
        pieces = vectors.tokenizer.pieces(vectors.encode(word))
        if len(pieces) > 1:
            print_status(f"{word}: {len(pieces)} tokens ({' '.join(pieces)}); their mean is compared")


def _print(title: str, near: "Sequence[Neighbour]") -> None:
    if title:
        print_result(title)
    for one in near:
        print_result(f"{'  ' if title else ''}{one.word}  {one.cosine:.3f}")


def _record(near: "Sequence[Neighbour]") -> dict[str, Any]:
    return {"neighbours": [{"word": one.word, "cosine": round(one.cosine, 4)} for one in near]}


def _weights(one: "WordInText") -> list[dict[str, Any]]:
    return [{"word": word, "weight": round(weight, 4)} for word, weight in one.weights]
