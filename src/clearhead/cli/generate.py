"""clearhead generate: continuations of texts."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import print_result, print_status, read_stdin, utf8_arguments, write_result
from clearhead.cli.options import (
    LANGUAGE_MODEL,
    Device,
    Json,
    PrecisionName,
    RepetitionPenalty,
    TopK,
    device_named,
    option,
    precision_named,
    print_default,
)
from clearhead.errors import SettingsError

if TYPE_CHECKING:
    from clearhead.tasks.language.generation import GenerateOptions, Generation
    from clearhead.tasks.language.model import LanguageModel

OVERFLOW_HELP = (
    "If prompt and new tokens exceed the context: slide forgets the oldest tokens, cut shortens the prompt."
)


def generate(
    prompts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to continue; reads all of stdin as one if omitted.", metavar="PROMPT"),
    ] = None,
    model: Annotated[
        str | None, option(f"Folder of a language model; default: {LANGUAGE_MODEL}.", "MODEL", name="--model")
    ] = None,
    tokens: Annotated[int, option("Maximum number of new tokens.", "N")] = 200,
    temperature: Annotated[float, option("Sampling temperature; 0 is greedy.", "X")] = 0.8,
    top_k: TopK = None,
    top_p: Annotated[float, option("Sample from the top tokens of total probability P.", "P")] = 1.0,
    min_p: Annotated[float, option("Skip tokens below P times the top probability.", "P")] = 0.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    stop: Annotated[list[str] | None, option("Stop at this text; may be repeated.", "TEXT")] = None,
    seed: Annotated[int, option("Random seed.", "N")] = 0,
    samples: Annotated[int, option("Continuations per prompt.", "N")] = 1,
    logprobs: Annotated[int, option("With --json: the N most likely tokens at each position.", "N")] = 0,
    overflow: Annotated[str, option(OVERFLOW_HELP, "slide|cut")] = "slide",
    device: Device = "auto",
    precision: PrecisionName = "fp32",
    json: Json = False,
) -> None:
    """Continue a text, and print it token by token.

    With several prompts or --samples, prints each continuation when it is complete, separated by blank lines.

    \b
    Examples:
      clearhead generate "ROMEO:"
      clearhead generate --model runs/mine --temperature 0 "Once upon a time"
      clearhead generate --model runs/mine --samples 3 --json < prompt.txt
    """
    from clearhead.tasks.language.generation import GenerateOptions
    from clearhead.tasks.load import load_built_in, load_for

    if logprobs and not json:
        raise SettingsError(f"--logprobs {logprobs}: needs --json")
    texts = prompts or [read_stdin("prompt")]
    if model is None:
        print_default(LANGUAGE_MODEL)
        language = load_built_in(LANGUAGE_MODEL, device_named(device), precision_named(precision))
    else:
        language = load_for("language", model, device_named(device), precision_named(precision))
    texts = list(utf8_arguments(texts, "prompt"))
    options = GenerateOptions(
        *(tokens, temperature, top_k, top_p, min_p, repetition_penalty),
        *(stop or (), seed, samples, logprobs, overflow),  # pyright: ignore[reportArgumentType]
    )
    if len(texts) == 1 and samples == 1 and not json:
        _stream(language, texts[0], options)
        return
    for number, generation in enumerate(language.generate(texts, **vars(options)), start=1):
        _print_unknown(number, language.unknown(generation.prompt))
        _print_truncated(number, generation.truncated, language.context_length)
        for index, sample in enumerate(generation.samples):
            if json:
                print_result(_record(sample, logprobs))
                continue
            if number > 1 or index:
                print_result("")
            print_result(str(sample))


def _stream(language: "LanguageModel", prompt: str, options: "GenerateOptions") -> None:
    stream = language.stream(prompt, **vars(options))
    _print_unknown(1, language.unknown(prompt))
    _print_truncated(1, language.truncated(prompt, options), language.context_length)
    if not language.prompt_format.prefix:
        write_result(prompt)
    for piece in stream:
        write_result(piece.text)
    write_result("\n")


def _print_unknown(number: int, words: int) -> None:
    if words:
        which = "1 word is" if words == 1 else f"{words:,} words are"
        print_status(
            f"prompt {number}: {which} not in the model's vocabulary; it reads <unk> and backs off to what "
            "it has seen"
        )


def _print_truncated(number: int, tokens: int, context: int) -> None:
    if tokens:
        first = "first token is" if tokens == 1 else f"first {tokens:,} tokens are"
        print_status(f"prompt {number}: longer than the context of {context} tokens; its {first} ignored")


def _record(generation: "Generation", logprobs: int) -> dict[str, Any]:
    names = ["prompt", "text", "ended", "sum_log_prob", "truncated"]
    record = {name: getattr(generation, name) for name in names}
    if logprobs:
        record["tokens"], record["log_probs"] = generation.tokens, generation.log_probs
        record["alternatives"] = [dict(tokens) for tokens in generation.alternatives]
    return record
