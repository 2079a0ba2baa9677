"""Before and after fine-tuning: a model and its parent, on the test sets of both."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead import tasks
from clearhead.checkpoint import CARD, SETTINGS
from clearhead.config import read_toml
from clearhead.errors import ClearheadError
from clearhead.tasks.card import with_section
from clearhead.tasks.events import Compared, ComparedRow, Note
from clearhead.tasks.load import load
from clearhead.tasks.records import TEST, add_final, write_named
from clearhead.tasks.zoo import task_of

SECTION = "Before and after fine-tuning"
NEW, OLD = "new", "old"


def compare(
    parent: Path, tuned: Path, step: int, device: torch.device
) -> Generator[Note | Compared, None, None]:
    """Scores of a model and of its parent on the held-out data of both; written to the model's folder.

    Nothing is compared if the parent was trained for another task. Whatever cannot be measured is reported
    in a note: the model itself is finished.
    """
    try:
        kinds = [task_of(read_toml(folder / SETTINGS)) for folder in (parent, tuned)]
    except ClearheadError as error:
        yield Note(f"no comparison with the parent: {error}")
        return
    if kinds[0] != kinds[1]:
        return
    yield Note("measuring before and after …")
    rows = yield from Comparison(parent, tuned, device).rows()
    if not rows:
        return
    table = Compared(tuple(rows), str(parent))
    write_named(tuned / CARD, with_section(_read(tuned / CARD), SECTION, _markdown(table)))
    after = {row.variant: row.after for row in rows if row.test == NEW and row.variant}
    if after:
        add_final(tuned, step, after, TEST)
    yield table


@dataclass
class Comparison:
    """Two models of one task."""

    parent: Path
    tuned: Path
    device: torch.device

    def rows(self) -> Generator[Note, None, list[ComparedRow]]:
        """One row for each test set and variant."""
        settings = {folder: read_toml(folder / SETTINGS) for folder in (self.parent, self.tuned)}
        self.task = tasks.TASKS[task_of(settings[self.tuned])]
        own, parents = (
            self.task.Recipe.variants(settings[one]) or ("",) for one in (self.tuned, self.parent)
        )
        known = [name for name in own if name in parents]
        try:
            self.models = {folder: load(folder, self.device) for folder in (self.parent, self.tuned)}
        except ClearheadError as error:
            yield Note(f"no comparison with the parent: {error}")
            return []
        rows: list[ComparedRow] = []
        for test, folder, variants in ((NEW, self.tuned, own), (OLD, self.parent, known)):
            for variant in variants:
                try:
                    rows.append(self._row(test, folder, variant, before=variant in known))
                except ClearheadError as error:
                    yield Note(f"{test} test set: not measured; {error}")
        return rows

    def _row(self, test: str, folder: Path, variant: str, before: bool) -> ComparedRow:
        """The scores of both models on the data held out in a folder."""
        after = self._record(self.tuned, folder, variant)
        metric = next(one for one in reversed(self.task.metrics) if one.name in after)
        earlier = self._record(self.parent, folder, variant)[metric.name] if before else None
        return ComparedRow(test, variant, metric, earlier, after[metric.name])

    def _record(self, model: Path, folder: Path, variant: str) -> Mapping[str, Any]:
        loaded = self.models[model]
        return (loaded.variant(variant) if variant else loaded).evaluate(folder).record


def _markdown(table: Compared) -> str:
    """The table for a model card."""
    head, *rows = table.cells()
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + f"\n\nOld: the test set of the parent, `{Path(table.parent).name}`."


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
