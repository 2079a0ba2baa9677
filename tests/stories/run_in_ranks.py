"""One of several ranks that run commands, one after the other: run_in_ranks.py '[{"command": […], …}, …]'.

A command may have a "signal" that one "rank" sends to itself at a "step". Rank 0 prints each exit status.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from clearhead.cli import main
from clearhead.tasks import run
from clearhead.training import Report

RANK = int(os.environ["RANK"])


def disturbed(
    work: Callable[..., Iterator[Any]], disturbance: dict[str, int]
) -> Callable[..., Iterator[Any]]:
    """A way to train in which a signal comes at the step that was named."""

    def events(*arguments: Any) -> Iterator[Any]:
        for event in work(*arguments):
            if isinstance(event, Report) and (event.step, RANK) == (disturbance["step"], disturbance["rank"]):
                signal.raise_signal(disturbance["signal"])
            yield event

    return events


def status_of(command: list[str], **disturbance: int) -> object:
    sys.argv = ["clearhead", *command]
    usual = {name: getattr(run, name) for name in ("train", "resume")}
    for name, work in usual.items():
        setattr(run, name, disturbed(work, disturbance) if disturbance else work)
    try:
        main()
    except SystemExit as ended:
        return ended.code or 0
    finally:
        for name, work in usual.items():
            setattr(run, name, work)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for one in json.loads(sys.argv[1]):
        status = status_of(**one)
        if RANK == 0:
            sys.stdout.write(f"status {status}\n")
            sys.stdout.flush()
