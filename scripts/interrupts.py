"""Sends Ctrl-C to a command at many moments after its start and counts how it ends.

    .venv/bin/python scripts/interrupts.py --until 3 --every 0.05 generate "ROMEO:" --tokens 20000

Choose a command that runs longer than --until. It should always end soon after the signal.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter

# Far longer than one step of any command: a process that still runs then has missed the signal.
TIMEOUT = 10.0
SOON = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", type=float, default=0.05, help="seconds until the first signal")
    parser.add_argument("--until", type=float, default=3.0, help="seconds until the last signal")
    parser.add_argument("--every", type=float, default=0.05, help="seconds between signals")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    count = int((options.until - options.since) / options.every) + 1
    delays = (options.since + number * options.every for number in range(count))
    outcomes = Counter(interrupt(delay, options.command) for delay in delays)
    for outcome, times in outcomes.most_common():
        sys.stdout.write(f"{times} of {count}: {outcome}\n")
    sys.exit(any(outcome.startswith("missed") for outcome in outcomes))


def interrupt(delay: float, command: list[str]) -> str:
    """How a command ends that gets Ctrl-C so many seconds after its start."""
    process = subprocess.Popen(
        [sys.executable, "-m", "clearhead", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_accept_ctrl_c,
    )
    time.sleep(delay)
    if process.poll() is not None:
        return "ended before the signal; choose a longer command"
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    try:
        _, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "missed: kept running"
    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
    late = "" if time.monotonic() - start < SOON else ", late"
    return f"exit status {process.returncode}{late}, last line: {last}"


def _accept_ctrl_c() -> None:
    """Undo what a shell does to background processes, which ignore Ctrl-C."""
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
