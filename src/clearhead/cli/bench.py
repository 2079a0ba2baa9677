"""clearhead bench: the speed of a model beside other libraries."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Device, Json, ModelArgument, device_named, option
from clearhead.cli.progress import Progress, format_rate
from clearhead.errors import DataError
from clearhead.wording import counted, plural

if TYPE_CHECKING:
    from clearhead.tasks.benchmark import SpeedTest
    from clearhead.tasks.speed import Case, Speed

NAME_WIDTH = 20


def bench(
    model: ModelArgument,
    input: Annotated[
        Path | None, option("Texts, one per line; default: the model's test data.", "FILE", name="--input")
    ] = None,
    threads: Annotated[int, option("Threads of a CPU.", "N", min=1)] = 1,
    rounds: Annotated[int, option("Measured rounds; medians are printed.", "N", min=1)] = 3,
    seconds: Annotated[float, option("Time of each library in a round, about.", "X", min=0.0)] = 0.5,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Measure the speed of a model beside other libraries.

    A translator translates its test sentences one by one and in batches of 32, greedily and with a beam of 4.
    A GPT continues prompts from its held-out text, one by one and 8 at a time. Each precision of the model is
    measured, and so are CTranslate2 and Hugging Face transformers if they are installed. They run the same
    weights, exported to a temporary folder.

    All take turns on the same texts. Rates are medians of the rounds; the spread is the range of the rates,
    relative to the median. On a CPU, time is CPU time. A relative speed of 1 is that of the model in fp32.
    The first answer includes packing the weights; loading includes the modules that a library imports then.

    \b
    Examples:
      clearhead bench en-de
      clearhead bench runs/mine --threads 4 --json
      clearhead bench shakespeare --rounds 5 --seconds 2
      clearhead bench runs/mine --input sentences.txt
    """
    from clearhead.tasks.benchmark import SpeedTest
    from clearhead.tasks.speed import speeds

    texts = _lines(input) if input else None
    test = SpeedTest(model, device_named(device), threads, texts)
    with tempfile.TemporaryDirectory() as temporary, Progress("measuring", "round", True) as progress:
        for name in test.prepare(Path(temporary)):
            print_status(f"loading {name} …")
        if not json:
            print_result(_title(model, test))
        progress.start(len(test.cases) * rounds)
        done = 0
        for case in test.cases:
            found = []
            for one in test.rounds(case, rounds, seconds):
                found.append(one)
                done += 1
                progress.update(done)
            with progress.hidden():
                _print_case(test, case, speeds(found), model, json)
    _print_loading(test, json)


def _lines(path: Path) -> list[str]:
    from clearhead.data.sources.streams import lines

    found = [line for line in lines(path) if line.strip()]
    if not found:
        raise DataError(f"--input {path}: has no text; name a file with one text per line")
    return found


def _title(model: str, test: "SpeedTest") -> str:
    where = f"{test.device.type}, {counted(test.threads, 'thread')}"
    origin = {"given": "from the file", "held out": "from its test data", "built-in": "built in"}
    unit = test.subject.unit if test.subject.translates else "prompt"
    return f"{model} on {where}: {counted(len(test.inputs), unit)} {origin[test.source]}"


def _print_case(test: "SpeedTest", case: "Case", speeds: "dict[str, Speed]", model: str, json: bool) -> None:
    on_cpu = test.device.type == "cpu"
    if json:
        for name, speed in speeds.items():
            print_result(_record(test, case, name, speed, model))
        return
    per, units = "CPU-s" if on_cpu else "s", plural(test.subject.unit)
    columns = [f"{units}/{per}"] * test.subject.translates + [f"tokens/{per}", "spread", "relative"]
    print_result(f"{case!s:{NAME_WIDTH}}" + "".join(f"{column:>15}" for column in columns))
    rates = {name: _rates(speed, on_cpu) for name, speed in speeds.items()}
    _, first = next(iter(rates.values()))
    for name, (texts, tokens) in rates.items():
        numbers = [format_rate(texts)] * test.subject.translates + [format_rate(tokens)]
        numbers += [f"{speeds[name].spread(on_cpu):.0%}", f"{tokens / first:.2f}"]
        print_result(f"  {name:{NAME_WIDTH - 2}}" + "".join(f"{number:>15}" for number in numbers))


def _rates(speed: "Speed", on_cpu: bool) -> tuple[float, float]:
    if on_cpu:
        return speed.texts_per_cpu_second, speed.tokens_per_cpu_second
    return speed.texts_per_second, speed.tokens_per_second


def _record(test: "SpeedTest", case: "Case", name: str, speed: "Speed", model: str) -> dict[str, Any]:
    record = {
        "model": model,
        "device": test.device.type,
        "threads": test.threads,
        **asdict(case),
        "name": name,
        f"{plural(test.subject.unit)}_per_second": speed.texts_per_second,
        "tokens_per_second": speed.tokens_per_second,
        "spread": speed.spread(test.device.type == "cpu"),
        "rounds": [asdict(one) for one in speed.rounds],
    }
    if test.device.type == "cpu":
        record[f"{plural(test.subject.unit)}_per_cpu_second"] = speed.texts_per_cpu_second
        record["tokens_per_cpu_second"] = speed.tokens_per_cpu_second
    return record


def _print_loading(test: "SpeedTest", json: bool) -> None:
    """Print the times of loading and of the first answer, and what was left out."""
    if json:
        for one in test.contenders:
            times = {"load_seconds": one.load_seconds, "first_answer_seconds": one.first_answer_seconds}
            print_result({"name": one.name, **times})
    else:
        print_result(f"{'seconds':{NAME_WIDTH}}{'load':>15}{'first answer':>15}")
        for one in test.contenders:
            times = f"{one.load_seconds:15.2f}{one.first_answer_seconds:15.2f}"
            print_result(f"  {one.name:{NAME_WIDTH - 2}}{times}")
    for one in test.skipped:
        print_status(f"not measured: {one.name}: {one.reason}")
    for peer in test.missing:
        print_status(f"not installed: {peer.name}; install it: {peer.install}")
