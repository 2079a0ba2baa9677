"""What all claims share: options, runs in parallel processes, the spread over seeds, tables, pictures."""

import argparse
import json
import multiprocessing
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

RESULTS = Path(__file__).parents[1] / "results"
Record = dict[str, Any]
"""One run: what was varied, and what was measured."""


@dataclass(frozen=True)
class Options:
    device: str
    seeds: tuple[int, ...] = (1, 2, 3)
    tiny: bool = False
    """Small enough for a test: the figures mean nothing."""


@dataclass(frozen=True)
class Claim:
    """A claim of the lectures, and how it is measured.

    `measure` runs one case in its own process, so both must be known by name to other processes; `report`
    returns the table and the finding; `draw` fills the picture. Both may get the records of an unfinished
    measurement.
    """

    name: str
    text: str
    cases: Callable[[Options], list[Record]]
    measure: Callable[[Options, Record], Record]
    report: Callable[[Sequence[Record]], str]
    draw: Callable[[Sequence[Record], Figure], None]


def main(*claims: Claim) -> None:
    """The command of one or several claims: measure, or read earlier results; then report and draw."""
    torch.set_num_threads(1)
    arguments = _arguments(claims)
    chosen = [claim for claim in claims if not arguments.claims or claim.name in arguments.claims]
    out = arguments.out or (Path(tempfile.mkdtemp()) if arguments.tiny else RESULTS)
    out.mkdir(parents=True, exist_ok=True)
    if arguments.read:
        results = {claim.name: _read(arguments.read, claim) for claim in chosen}
    else:
        seeds = tuple(arguments.seeds or ((1,) if arguments.tiny else (1, 2, 3)))
        options = Options(arguments.device, seeds, arguments.tiny)
        results = _measured(chosen, options, arguments.processes, out, arguments.resume)
    for claim in chosen:
        _show(claim, results[claim.name], out)


def _show(claim: Claim, result: Record, out: Path) -> None:
    records = result["records"]
    print(f"\n{claim.text}\n\n{claim.report(records)}\n\n{result['about']}")
    picture = Figure(figsize=(9, 3.6), layout="constrained")
    claim.draw(records, picture)
    picture.suptitle(result["about"], fontsize="small")
    picture.savefig(out / f"claims-{claim.name}.png", dpi=120)
    print(out / f"claims-{claim.name}.png", flush=True)


def _measured(
    claims: Sequence[Claim], options: Options, processes: int, out: Path, resume: bool
) -> dict[str, Record]:
    """The results of all cases, written after each, so that an interrupted measurement loses little.

    They replace earlier results of the same cases in the folder, and leave those of other cases; `resume`
    measures only the cases that the folder has no results of.
    """
    started = time.perf_counter()
    results = {claim.name: _earlier(claim, options, out) for claim in claims}
    cases = [
        (claim, case)
        for claim in claims
        for case in claim.cases(options)
        if not (resume and any(is_of(one, case) for one in results[claim.name]["records"]))
    ]
    # All cases with one seed before the next seed: an interrupted measurement has fewer seeds.
    cases.sort(key=lambda both: both[1].get("seed", 0))
    for done, (claim, case, found) in enumerate(_run(cases, options, processes), start=1):
        result = results[claim.name]
        others = [one for one in result["records"] if not is_of(one, case)]
        result["records"] = sorted([*others, {**case, **found}], key=lambda one: list(map(str, one.values())))
        _file(claim, options, out).write_text(json.dumps(result, indent=1) + "\n")
        seconds = time.perf_counter() - started
        print(f"{done}/{len(cases)} {seconds:.0f} s {claim.name}: {case}", file=sys.stderr, flush=True)
    return results


def is_of(record: Record, case: Record) -> bool:
    """Whether a record is that of a case."""
    return all(record.get(name) == value for name, value in case.items())


def _file(claim: Claim, options: Options, out: Path) -> Path:
    return out / f"claims-{claim.name}-{options.device}.json"


def _earlier(claim: Claim, options: Options, out: Path) -> Record:
    path = _file(claim, options, out)
    records = json.loads(path.read_text())["records"] if path.exists() else []
    return {"claim": claim.text, "about": about_machine(options.device), "records": records}


def _run(
    cases: Sequence[tuple[Claim, Record]], options: Options, processes: int
) -> Iterator[tuple[Claim, Record, Record]]:
    """Each claim with a case and what was measured; failures are reported on stderr."""
    if processes == 1:
        for claim, case in cases:
            yield claim, case, run_case(claim.measure, options, case)
        return
    # CUDA cannot be used in a forked process.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running = {
            pool.submit(run_case, claim.measure, options, case): (claim, case) for claim, case in cases
        }
        for future in as_completed(running):
            claim, case = running[future]
            if error := future.exception():
                print(f"{claim.name}: {case} failed: {error!r}", file=sys.stderr, flush=True)
            else:
                yield claim, case, future.result()


def run_case(measure: Callable[[Options, Record], Record], options: Options, case: Record) -> Record:
    """What was measured in one case, with its device and its duration."""
    torch.manual_seed(case.get("seed", 0))
    started = time.perf_counter()
    found = measure(options, case)
    return {"device": options.device, **found, "seconds": round(time.perf_counter() - started, 2)}


def _read(paths: Sequence[Path], claim: Claim) -> Record:
    """The results in JSON files, or in those of the claim in folders, as one."""
    files = [file for path in paths for file in _files(path, claim)]
    results = [json.loads(file.read_text()) for file in files]
    if not results:
        raise SystemExit(f"{paths[0]}: holds no results of the claim '{claim.name}'; measure it first")
    about = " | ".join(dict.fromkeys(result["about"] for result in results))
    return {"about": about, "records": [record for result in results for record in result["records"]]}


def _files(path: Path, claim: Claim) -> list[Path]:
    return sorted(path.glob(f"claims-{claim.name}-*.json")) if path.is_dir() else [path]


def _arguments(claims: Sequence[Claim]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=claims[0].text if len(claims) == 1 else __doc__)
    available = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=available)
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 1 2 3")
    parser.add_argument("--processes", type=int, default=1, help="cases measured at the same time")
    parser.add_argument("--tiny", action="store_true", help="a smoke test: the figures mean nothing")
    parser.add_argument("--resume", action="store_true", help="measure only cases without results in --out")
    parser.add_argument("--out", type=Path, help="folder of the results; default: benchmarks/results")
    parser.add_argument(
        "--from", dest="read", type=Path, nargs="+", help="report on these files or folders, measure nothing"
    )
    names = [claim.name for claim in claims]
    if len(claims) > 1:
        parser.add_argument("claims", nargs="*", choices=[*names, []], help=f"some of {', '.join(names)}")
    return parser.parse_args(namespace=argparse.Namespace(claims=[]))


def about_machine(device: str) -> str:
    """Date, device and version of torch."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"one thread of a CPU ({platform.machine()})"
    return f"{date.today()}, {name}, torch {torch.__version__}"


def values(records: Sequence[Record], measured: str, **case: Any) -> list[float]:
    """What was measured in the runs of a case, one value per seed."""
    return [record[measured] for record in records if measured in record and is_of(record, case)]


def mean(found: Sequence[float]) -> float:
    return statistics.fmean(found) if found else float("nan")


def spread(found: Sequence[float]) -> float:
    """The standard deviation over the seeds; 0 for one seed."""
    return statistics.stdev(found) if len(found) > 1 else 0.0


def text(found: Sequence[float], form: str = ".1f") -> str:
    """Mean ± standard deviation."""
    if not found:
        return "–"
    return f"{mean(found):{form}}" + (f" ± {spread(found):{form}}" if len(found) > 1 else "")


def cases_of(records: Sequence[Record], name: str) -> list[Any]:
    """The different values of what was varied, in the order of the records."""
    return list(dict.fromkeys(record[name] for record in records if name in record))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
