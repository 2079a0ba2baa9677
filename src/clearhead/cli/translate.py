"""clearhead translate: texts, or standard input line by line."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import Beam, Device, Json, LengthPenalty, Model, chosen_device, put, say_default
from clearhead.cli.progress import tracked
from clearhead.errors import DataError, SettingsError

if TYPE_CHECKING:
    from clearhead.tasks.translation.model import Translation


def translate(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines of stdin.")] = None,
    model: Model = None,
    to: Annotated[str | None, typer.Option(help="The language to translate into.", metavar="LANG")] = None,
    beam: Beam = None,
    nbest: Annotated[int, typer.Option(help="Translations of each text, best first.")] = 1,
    length_penalty: LengthPenalty = None,
    prefix: Annotated[str, typer.Option(help="How each translation begins.")] = "",
    repetition_penalty: Annotated[float, typer.Option(help="Above 1, used tokens become less likely.")] = 1.0,
    no_repeat: Annotated[int, typer.Option(help="No run of so many tokens comes twice.")] = 0,
    temperature: Annotated[float | None, typer.Option(help="Draw instead of search: 1 as the model.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k best tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the best with this share.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Draw above this share of the best.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the draw; 0 unless said.")] = None,
    device: Device = "auto",
    at_once: Annotated[int, typer.Option(help="Lines of stdin read before translating.", min=1)] = 512,
    json: Json = False,
) -> None:
    """Translate texts, or standard input line by line.

    One line out for each line in, in order; blank lines stay blank. With --nbest N, N lines of
    score, tab, translation. With --temperature, --top-k, --top-p or --min-p the translation is drawn.

        clearhead translate "Where is the station?"

        clearhead translate --to fr "Where is the station?"

        clearhead translate --model fr-en --nbest 3 "Je suis fatigué."

        clearhead translate --model runs/mine < english.txt > german.txt
    """
    from clearhead.tasks.load import load_translator
    from clearhead.tasks.translation.directions import check_target
    from clearhead.tasks.translation.model import Sampling
    from clearhead.tasks.zoo import DEFAULT, default_translator

    if model is None:
        say_default(DEFAULT)
        model, to = default_translator(to)
    translator = load_translator(model, chosen_device(device))
    options = {
        "nbest": nbest,
        "prefix": prefix,
        "repetition_penalty": repetition_penalty,
        "no_repeat": no_repeat,
    }
    perhaps = {"beam": beam, "length_penalty": length_penalty}
    options |= {name: value for name, value in perhaps.items() if value is not None}
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    drawn = {name: value for name, value in drawn.items() if value is not None}
    if drawn:
        options["sampling"] = Sampling(seed=seed or 0, **drawn)
    elif seed is not None:
        raise SettingsError(f"--seed {seed}: goes with --temperature, --top-k, --top-p or --min-p")
    check_target(translator.directions, to, asked_by="--to")
    interactive = bool(sys.stdin) and sys.stdin.isatty()
    found = translator.stream(
        _checked(texts) if texts else _lines(), 1 if interactive and not texts else at_once, to, **options
    )
    quiet = bool(texts) or interactive or not sys.stderr.isatty() or sys.stdout.isatty()
    for translation in found if quiet else tracked(found, "translating", None, "lines"):
        _show(translation, nbest, json)


def _show(translation: "Translation", nbest: int, json: bool) -> None:
    if json:
        record = {"source": translation.source, "translation": translation.text, "score": translation.score}
        if nbest > 1:
            record["nbest"] = [{"translation": one.text, "score": one.score} for one in translation.nbest]
        if not translation.complete:
            record["complete"] = False
        put(record)
    elif nbest > 1 and translation.nbest:
        for one in translation.nbest:
            put(f"{one.score:.4f}\t{one.text}")
    else:
        put(translation.text)


def _checked(texts: list[str]) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        if not text.isascii() and any("\udc80" <= sign <= "\udcff" for sign in text):
            raise DataError(f"text {number}: not UTF-8; the texts before it are translated")
        yield text


def _lines() -> Iterator[str]:
    if sys.stdin is None:
        raise DataError("standard input: is closed; give texts as arguments, or a file with < FILE")
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"standard input, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); "
                "the lines before it are translated"
            ) from None
