"""Time to the first translation: `clearhead translate "…"` in a new process, and its parts.

    python benchmarks/startup.py [--model M] [--runs N]

Wall time on the cores that this process may use (for two: `taskset -c 0,1 python benchmarks/startup.py`). The
first run may find files not cached and is reported separately; the others give median and range.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

TEXTS = {
    "en": "I have been waiting here for two hours.",
    "de": "Ich warte hier seit zwei Stunden.",
    "fr": "J'attends ici depuis deux heures.",
}
STAGES = {
    "python": "pass",
    "python, torch": "import torch",
    "python, torch, clearhead": "import clearhead; clearhead.load",
    "python, torch, clearhead, model": "import clearhead; clearhead.load({model!r})",
}
COMMAND = "from clearhead.cli import main; main()"


def seconds(code: str, *arguments: str) -> float:
    """Wall time of a new Python process that runs some code."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - start


def show(name: str, times: list[float]) -> None:
    first, *others = times
    median, low, high = statistics.median(others), min(others), max(others)
    print(f"{name:<34} {median:6.2f} s   {low:.2f} to {high:.2f}   first {first:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="en-de", help="a built-in model or a folder")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    source = options.model.partition("-")[0]
    text = TEXTS.get(source, TEXTS["en"])
    command = ["translate", "--model", options.model, text]
    print(
        f"{len(os.sched_getaffinity(0))} cores, median of {options.runs} runs; load {os.getloadavg()[0]:.1f}"
    )
    times: dict[str, list[float]] = {name: [] for name in [*STAGES, 'clearhead translate "…"']}
    # Interleaved, so that other load on the machine affects all alike.
    for _ in range(options.runs + 1):
        for name, code in STAGES.items():
            times[name].append(seconds(code.format(model=options.model)))
        times['clearhead translate "…"'].append(seconds(COMMAND, *command))
    for name, measured in times.items():
        show(name, measured)


if __name__ == "__main__":
    main()
