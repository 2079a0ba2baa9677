"""One of several ranks that run a list of commands: run_in_ranks.py '[{"command": […], …}, …]'.

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
from clearhead.training import Report, parallel

RANK = int(os.environ["RANK"])


def with_signal(work: Callable[..., Iterator[Any]], sent: dict[str, int]) -> Callable[..., Iterator[Any]]:
    """The training function, but with a signal at a step of one rank."""

    def events(*arguments: Any) -> Iterator[Any]:
        for event in work(*arguments):
            if isinstance(event, Report) and (event.step, RANK) == (sent["step"], sent["rank"]):
                signal.raise_signal(sent["signal"])
            yield event

    return events


def exit_status(command: list[str], **sent: int) -> object:
    sys.argv = ["clearhead", *command]
    usual = {name: getattr(run, name) for name in ("train", "resume")}
    for name, work in usual.items():
        setattr(run, name, with_signal(work, sent) if sent else work)
    try:
        main()
    except SystemExit as ended:
        return ended.code or 0
    finally:
        for name, work in usual.items():
            setattr(run, name, work)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parallel.BUCKET = 5000  # so that even a small model's gradients need several
    for one in json.loads(sys.argv[1]):
        status = exit_status(**one)
        if RANK == 0:
            sys.stdout.write(f"status {status}\n")
            sys.stdout.flush()
