"""Sends Ctrl-C to a command at many moments after its start, and tells what became of each.

    .venv/bin/python scripts/interrupts.py --until 3 --every 0.05 generate "ROMEO:" --tokens 20000

The command should be one that takes longer than the last moment. It must have ended soon after each.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter

# Far longer than a step of any command: what still runs then has lost the Ctrl-C.
PATIENCE = 10.0
SOON = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", type=float, default=0.05)
    parser.add_argument("--until", type=float, default=3.0)
    parser.add_argument("--every", type=float, default=0.05)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    moments = range(int((asked.until - asked.since) / asked.every) + 1)
    found = Counter(interrupted(asked.since + number * asked.every, asked.command) for number in moments)
    for what, count in found.most_common():
        sys.stdout.write(f"{count} of {len(moments)}: {what}\n")
    sys.exit(any(what.startswith("lost") for what in found))


def interrupted(moment: float, command: list[str]) -> str:
    """How a command ends that is interrupted so many seconds after its start."""
    process = subprocess.Popen(
        [sys.executable, "-m", "clearhead", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hearing,
    )
    time.sleep(moment)
    if process.poll() is not None:
        return "had ended before; give it more to do"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "lost: went on"
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    late = "" if time.monotonic() - began < SOON else ", late"
    return f"ended with {process.returncode}{late}, and said: {last}"


def hearing() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so does all that it starts."""
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
