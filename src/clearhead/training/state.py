"""The states of a run on disk: saved atomically, pruned, and verified when read."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from clearhead.errors import ModelError, TrainingError
from clearhead.files import leftover_files
from clearhead.training.config import AverageConfig, TrainingConfig
from clearhead.training.ranks import Group, Ranks
from clearhead.training.state_formats import FORMATS, Allocate, FilePerRank, SingleFile, cpu_tensor, format_of
from clearhead.training.tensors import Tree, read_checksum, read_notes, read_weights, write_tree

Better = Literal["lower", "higher"]

log = logging.getLogger(__name__)


class StateFolder:
    """The `training` folder of a run, which one process or one group of ranks may hold at a time.

    `weights-N.safetensors` holds the weights of step N, `state-N.safetensors` everything else needed to
    resume from it; ranks that hold shards write a folder `state-N`. The state is written last: a step counts
    as saved when it is there. States are kept for the last steps; weights, which are smaller and may be
    averaged, also for the best ones. A passing state, saved between two regular ones, is kept only until the
    next one and is in no average.
    """

    def __init__(
        self,
        folder: Path,
        keep_last: int = 2,
        keep_best: int = 1,
        keep_weights: int = 0,
        better: Better = "lower",
        ranks: Ranks | None = None,
        format: SingleFile | None = None,
    ):
        self.folder, self.ranks, self.format = folder, ranks or Ranks(), format or SingleFile()
        self.keep_last, self.keep_best = keep_last, keep_best
        self.keep_weights = max(keep_last, keep_weights)
        self.better = better
        self._lock: int | None = None

    @classmethod
    def of(
        cls, folder: Path, config: TrainingConfig, ranks: Ranks | None = None, better: Better = "lower"
    ) -> Self:
        """A folder that keeps what the settings ask for and what an average needs."""
        last, best = config.keep_last, config.keep_best
        if config.average and config.average.of == "best":
            best = max(best, config.average.count)
        elif config.average:
            last = max(last, config.average.count)
        sharded = config.parallel == "fsdp" and isinstance(ranks, Group)
        format = FilePerRank() if sharded else SingleFile()
        return cls(folder, config.keep_last, best, last, better, ranks, format)

    def __enter__(self) -> Self:
        """Locks the folder for rank 0; the kernel releases the lock when the process ends."""
        self.ranks.first(self._acquire)
        return self

    def _acquire(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.folder)
        except OSError as error:
            raise TrainingError(f"{self.folder}: cannot be used for a run: {error.strerror}") from error
        for leftover in leftover_files(self.folder):
            log.warning("%s: left half-written by an earlier run; removed", leftover)
            _remove(leftover)

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def save(self, state: Tree, score: float | None = None, passing: bool = False) -> None:
        """Saves a state, then removes what is no longer kept; an error leaves older states untouched.

        A collective call. The state has "step", "weights" and other names: tensors, JSON values or dicts.
        """
        self.ranks.first(self._check_held)
        step = state["step"]
        notes = {"step": step, "score": score, "passing": passing}
        path = self._path(step, self.format)
        try:
            full = self.format.full(state["weights"], self.ranks)
            checksum = self.ranks.first(lambda: write_tree(self._weights(step), {**full, **notes}))
            self.format.write(path, {**state, **notes, "weights_sha256": checksum}, self.ranks)
        except OSError as error:
            others = [kept for kept in self.steps() if kept != step]
            kept = f"the state of step {others[-1]} is kept" if others else "there is no earlier state"
            reason = error.strerror or str(error)
            raise TrainingError(
                f"{self.folder}: cannot save step {step}: {reason}; {kept}; free some space and resume"
            ) from error
        self.ranks.first(lambda: self._prune(path))

    def _check_held(self) -> None:
        if self._lock is None:
            raise TrainingError(f"{self.folder}: enter the folder (with StateFolder(…)) before saving to it")

    def latest(self, allocate: Allocate = cpu_tensor) -> dict[str, Any] | None:
        """The newest undamaged state, or None; `allocate` makes the tensors of shards. A collective call.

        A damaged state is reported and renamed, and the one before it is read.
        """
        step = self.ranks.first(self._newest_undamaged)
        if step is None:
            return None
        path = self._state(step)
        state = self._format(path).read(path, allocate)
        del state["weights_sha256"]
        return state if "weights" in state else {**state, "weights": read_weights(self._weights(step))}

    def _newest_undamaged(self) -> int | None:
        steps = self.steps()
        for step in reversed(steps):
            try:
                self._check(step)
                self._drop_later_weights(step)
                return step
            except ModelError as error:
                log.warning("%s; falling back to the previous state", error)
                self._set_aside(step)
        if steps:
            raise TrainingError(f"{self.folder}: all {len(steps)} saved states are damaged; start a new run")
        return None

    def steps(self) -> list[int]:
        """The saved steps, in order."""
        return _steps(path for path in self.folder.glob("state-*") if format_of(path))

    def weights(self) -> list[Path]:
        """The files of weights except passing ones, in the order of their steps."""
        paths = [self._weights(step) for step in _steps(self.folder.glob("weights-*.safetensors"))]
        return [path for path in paths if not read_notes(path).get("passing")]

    def best_weights(self, count: int) -> list[Path]:
        """The weights with the best scores, best first; of equal ones the older."""
        scores = {path: read_notes(path).get("score") for path in self.weights()}
        scored = [(score, path) for path, score in scores.items() if score is not None]
        direction = 1 if self.better == "lower" else -1
        return [path for _, path in sorted(scored, key=lambda pair: direction * pair[0])[:count]]

    def to_average(self, config: AverageConfig) -> list[Path]:
        """The weights that the settings average; fewer at the start of a run."""
        return self.best_weights(config.count) if config.of == "best" else self.weights()[-config.count :]

    def _check(self, step: int) -> None:
        """Raises ModelError if the state of a step or its weights are damaged."""
        path, weights = self._state(step), self._weights(step)
        format = self._format(path)
        format.check(path)
        read_weights(weights)
        if read_checksum(weights) != format.notes(path)["weights_sha256"]:
            raise ModelError(f"{weights}: not the weights that {path.name} was saved with")

    def _prune(self, newest: Path) -> None:
        """Removes what is no longer kept after saving the newest state."""
        states = [path for path in self.folder.glob("state-*") if format_of(path)]
        earlier = sorted(path for path in states if path.stem != newest.stem)
        regular = [path for path in earlier if not self._format(path).notes(path).get("passing")]
        last = [*regular, newest][-self.keep_last :]
        kept = {*last, *map(self._weights, _steps(last))}
        kept |= {*self.weights()[-self.keep_weights :], *self.best_weights(self.keep_best)}
        for path in [*states, *self.folder.glob("weights-*.safetensors")]:
            if path not in kept:
                _remove(path)

    def _drop_later_weights(self, step: int) -> None:
        """Removes weights whose state was never written: the resumed run writes them again."""
        for later in _steps(self.folder.glob("weights-*.safetensors")):
            if self._lock is not None and later > step:
                self._weights(later).unlink()

    def _set_aside(self, step: int) -> None:
        # Under their own names they would count among the last states and displace good ones.
        for path in (self._state(step), self._weights(step)):
            if self._lock is not None and path.exists():
                aside = path.with_suffix(".broken")
                _remove(aside)
                path.rename(aside)

    def _state(self, step: int) -> Path:
        """The state of a step in the format it has, or would get."""
        paths = [self._path(step, format) for format in FORMATS]
        return next((path for path in paths if path.exists()), self._path(step, self.format))

    def _format(self, path: Path) -> SingleFile:
        return format_of(path) or self.format

    def _path(self, step: int, format: SingleFile) -> Path:
        return self.folder / f"state-{step:08}{format.suffix}"

    def _weights(self, step: int) -> Path:
        return self.folder / f"weights-{step:08}.safetensors"


def _steps(paths: Iterable[Path]) -> list[int]:
    return sorted(int(number) for path in paths if (number := path.stem.partition("-")[2]).isdecimal())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _lock(folder: Path) -> int:
    """An open handle on the folder's lock file, now locked by this process."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise TrainingError(
            f"{folder}: process {holder} is training here; wait for it, stop it, or choose another folder"
        ) from None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle
