"""How long a user waits for the first translation: `clearhead translate "…"` in a new process, and its parts.

    python benchmarks/startup.py [--model M] [--runs N]

Wall time on the cores that this process may use (for two: `taskset -c 0,1 python benchmarks/startup.py`). The
first run, with files perhaps not yet in memory, is shown apart; the others give median and range.
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
STEPS = {
    "python": "pass",
    "python, torch": "import torch",
    "python, torch, clearhead": "import clearhead; clearhead.load",
    "python, torch, clearhead, model": "import clearhead; clearhead.load({model!r})",
}
COMMAND = "from clearhead.cli import main; main()"


def seconds(code: str, *arguments: str) -> float:
    """Wall time of a new Python that runs some code."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - began


def show(name: str, times: list[float]) -> None:
    first, *others = times
    median, low, high = statistics.median(others), min(others), max(others)
    print(f"{name:<34} {median:6.2f} s   {low:.2f} to {high:.2f}   first {first:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="en-de", help="a built-in model's name or a folder")
    parser.add_argument("--runs", type=int, default=7)
    asked = parser.parse_args()
    source = asked.model.partition("-")[0]
    text = TEXTS.get(source, TEXTS["en"])
    command = ["translate", "--model", asked.model, text]
    print(f"{len(os.sched_getaffinity(0))} cores, median of {asked.runs} runs; load {os.getloadavg()[0]:.1f}")
    times: dict[str, list[float]] = {name: [] for name in [*STEPS, 'clearhead translate "…"']}
    # Interleaved: what else the machine does then weighs on all alike.
    for _ in range(asked.runs + 1):
        for name, code in STEPS.items():
            times[name].append(seconds(code.format(model=asked.model)))
        times['clearhead translate "…"'].append(seconds(COMMAND, *command))
    for name, measured in times.items():
        show(name, measured)


if __name__ == "__main__":
    main()
