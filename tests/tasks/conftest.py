"""Helpers that run a training to its end, or interrupt it."""

import json
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from clearhead.tasks.events import Event, Finished
from clearhead.training import Report


def finish(events: Iterable[Event]) -> Finished:
    """The last event of a run."""
    *_, last = events
    assert isinstance(last, Finished)
    return last


def interrupted_at(steps: set[int], events: Iterator[Event]) -> Finished:
    """The last event of a run that receives SIGINT during each of these steps."""
    last = None
    for last in events:
        if isinstance(last, Report) and last.step in steps:
            signal.raise_signal(signal.SIGINT)
    assert isinstance(last, Finished)
    return last


def metrics(out: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without times."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "tokens_per_second")} for line in lines]
