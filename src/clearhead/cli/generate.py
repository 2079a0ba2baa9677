"""clearhead generate: a text continued, shown as it is written."""

import io
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import Device, Json, chosen_device, put, say, say_default, tell
from clearhead.errors import DataError, SettingsError

if TYPE_CHECKING:
    from clearhead.tasks.language.generation import Generation
    from clearhead.tasks.language.model import LanguageModel


def generate(
    prompts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, all of stdin.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A trained model's folder. Without: shakespeare of the package.", metavar="M"),
    ] = None,
    tokens: Annotated[int, typer.Option(help="The most tokens that are added.")] = 200,
    temperature: Annotated[float, typer.Option(help="0 takes the best token, 1 draws as the model.")] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k best tokens.")] = None,
    top_p: Annotated[float, typer.Option(help="Draw among the best with this share.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Draw above this share of the best.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1, used tokens become less likely.")] = 1.0,
    stop: Annotated[list[str] | None, typer.Option(help="A text to end at; may be given again.")] = None,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    samples: Annotated[int, typer.Option(help="Continuations of each text.")] = 1,
    logprobs: Annotated[int, typer.Option(help="With --json: so many best tokens at each place.")] = 0,
    overflow: Annotated[
        str, typer.Option(help="Beyond the context: slide forgets the oldest, cut shortens the prompt.")
    ] = "slide",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Continue a text, and show it as it is written.

    With several texts or --samples N, each is shown when it is whole, with a blank line between them.

        clearhead generate "ROMEO:"

        clearhead generate --model runs/mine --temperature 0 --tokens 50 "Once upon a time"

        clearhead generate --model runs/mine --stop "." --samples 3 --json < prompt.txt
    """
    from clearhead.tasks.load import load_language
    from clearhead.tasks.zoo import SHAKESPEARE, default_language

    if logprobs and not json:
        raise SettingsError(f"--logprobs {logprobs}: is told as JSON alone; add --json")
    texts = prompts or [_read()]
    if model is None:
        say_default(SHAKESPEARE)
        model = default_language()
    language = load_language(model, chosen_device(device))
    options = {
        "tokens": tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "stop": tuple(stop or ()),
        "seed": seed,
        "samples": samples,
        "logprobs": logprobs,
        "overflow": overflow,
    }
    if len(texts) == 1 and samples == 1 and not json:
        _stream(language, _checked(texts)[0], options)
        return
    found = language.generate(_checked(texts), **options)
    each = [one for generation in found for one in generation.samples]
    for number, one in enumerate(each, start=1):
        if (number - 1) % samples == 0:
            _say_unseen(one.unseen, language.context_length, (number - 1) // samples + 1)
        if json:
            put(_record(one, logprobs))
        else:
            put(str(one) + ("\n" if number < len(each) else ""))


def _stream(language: "LanguageModel", prompt: str, options: dict) -> None:
    spoken = language.stream(prompt, **options)
    _say_unseen(language.unseen(prompt, **options), language.context_length, number=1)
    if not language.frame:
        tell(prompt)
    for one in spoken:
        tell(one.text)
    tell("\n")


def _say_unseen(tokens: int, max_length: int, number: int) -> None:
    if tokens:
        first = "first token is" if tokens == 1 else f"first {tokens:,} tokens are"
        say(f"prompt {number}: does not fit into the model's context of {max_length}: its {first} unseen")


def _record(one: "Generation", logprobs: int) -> dict:
    record = {
        "prompt": one.prompt,
        "text": one.text,
        "ended": one.ended,
        "log_probability": one.log_probability,
        "unseen": one.unseen,
    }
    if logprobs:
        record["tokens"], record["log_probabilities"] = one.tokens, one.log_probabilities
        record["alternatives"] = [dict(best) for best in one.alternatives]
    return record


def _checked(texts: list[str]) -> list[str]:
    for number, text in enumerate(texts, start=1):
        if not text.isascii() and any("\udc80" <= sign <= "\udcff" for sign in text):
            raise DataError(f"prompt {number}: not UTF-8; write it as UTF-8")
    return texts


def _read() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError("no prompt: give a text to continue, or a file with < FILE")
    read = sys.stdin.buffer.read()
    try:
        # Line ends as training has them.
        text = io.IncrementalNewlineDecoder(None, translate=True).decode(read.decode("utf-8-sig"), final=True)
        return text.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"standard input: not UTF-8 (byte 0x{read[error.start]:02x} at {error.start}); write it as UTF-8"
        ) from None
