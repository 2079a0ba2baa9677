"""The state of a run on disk: saved atomically, pruned, and found again whole after any kind of end."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from clearhead.errors import ModelError, TrainingError
from clearhead.files import leftover_files
from clearhead.training.config import AverageConfig, TrainingConfig
from clearhead.training.manifest import Place, anywhere
from clearhead.training.ranks import Group, Ranks
from clearhead.training.state_formats import FORMS, FileARank, Form, OneFile, form_of
from clearhead.training.tensors import Tree, read_checksum, read_notes, read_weights, write_tree

log = logging.getLogger(__name__)


class StateFolder:
    """The `training` folder of a run, which one process at a time may hold, or several ranks together.

    `weights-N.safetensors` holds what step N would publish, `state-N.safetensors` all else that is needed to
    go on from there; where ranks hold shards, that is a folder `state-N`. A step counts as saved when its
    state is there, and the state is written last. States are kept for the last steps; weights, which are
    smaller and may be wanted for an average, also for the best steps. A passing state, saved between two
    turns, is kept only until there is a later one, and no average takes it in.
    """

    def __init__(
        self,
        folder: Path,
        keep_last: int = 2,
        keep_best: int = 1,
        keep_weights: int = 0,
        better: Literal["lower", "higher"] = "lower",
        ranks: Ranks | None = None,
        form: Form | None = None,
    ):
        self.folder = folder
        self.ranks = ranks or Ranks()
        self.form = form or OneFile()
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.keep_weights = max(keep_last, keep_weights)
        self.better = better
        self._lock: int | None = None

    @classmethod
    def of(cls, folder: Path, config: TrainingConfig, ranks: Ranks | None = None) -> Self:
        """A folder that keeps what the settings say, and what an average will need."""
        last, best = config.keep_last, config.keep_best
        if config.average and config.average.of == "best":
            best = max(best, config.average.count)
        elif config.average:
            last = max(last, config.average.count)
        better = "higher" if config.monitor == "bleu" else "lower"
        form = FileARank() if config.parallel == "fsdp" and isinstance(ranks, Group) else OneFile()
        return cls(folder, config.keep_last, best, keep_weights=last, better=better, ranks=ranks, form=form)

    def __enter__(self) -> Self:
        """Takes the folder for rank 0; the kernel frees it when the process ends, however it ends."""
        self.ranks.first(self._take)
        return self

    def _take(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _take(self.folder / "lock", self.folder)
        except OSError as error:
            raise TrainingError(f"{self.folder}: cannot be used for a run: {error.strerror}") from error
        for leftover in leftover_files(self.folder):
            log.warning("%s: half-written when an earlier run ended; removed", leftover)
            _remove(leftover)

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def save(self, state: Tree, score: float | None = None, passing: bool = False) -> None:
        """Saves a state, then removes what need not be kept; after an error everything older is untouched.

        Expects "step" and "weights" in it, and else any names with tensors, JSON values or dicts of them.
        All ranks call it together.
        """
        self.ranks.first(self._check_held)
        step = state["step"]
        about = {"step": step, "score": score, "passing": passing}
        path = self._in_form(step, self.form)
        with self._saving(step):
            whole = self.form.whole(state["weights"], self.ranks)
            checksum = self.ranks.first(lambda: write_tree(self._weights(step), {**whole, **about}))
            self.form.write(path, {**state, **about, "weights_sha256": checksum}, self.ranks)
        self.ranks.first(lambda: self._prune(path))

    def _check_held(self) -> None:
        if self._lock is None:
            raise TrainingError(f"{self.folder}: enter the folder (with StateFolder(…)) before saving to it")

    @contextmanager
    def _saving(self, step: int) -> Iterator[None]:
        """What the system refuses to write becomes an error that says from where the run can go on."""
        try:
            yield
        except OSError as error:
            whole = [kept for kept in self.steps() if kept != step]
            kept = f"the state of step {whole[-1]} is kept" if whole else "there is no earlier state"
            reason = error.strerror or str(error)
            raise TrainingError(
                f"{self.folder}: cannot save step {step}: {reason}; {kept}; make room and resume"
            ) from error

    def latest(self, place: Place = anywhere) -> dict[str, Any] | None:
        """The newest whole state as it was saved; None in a folder without any.

        A broken one is reported and set aside under another name, and the one before is taken. All ranks ask
        for it together; `place` says where tensors go that were saved in shards.
        """
        step = self.ranks.first(self._newest_whole)
        return None if step is None else self._read(step, place)

    def _newest_whole(self) -> int | None:
        steps = self.steps()
        for step in reversed(steps):
            try:
                self._check(step)
                self._drop_later_weights(step)
                return step
            except ModelError as error:
                log.warning("%s; falling back to the state before", error)
                if self._lock is not None:
                    self._set_aside(step)
        if steps:
            raise TrainingError(
                f"{self.folder}: none of {len(steps)} saved states is whole; start the run anew"
            )
        return None

    def steps(self) -> list[int]:
        """The steps whose state is there, in order."""
        return _steps(path for path in self.folder.glob("state-*") if form_of(path))

    def weights(self) -> list[Path]:
        """The files of weights but passing ones, in the order of their steps."""
        paths = [self._weights(step) for step in _steps(self.folder.glob("weights-*.safetensors"))]
        return [path for path in paths if not read_notes(path).get("passing")]

    def best_weights(self, count: int) -> list[Path]:
        """The weights with the best scores, best first; of equal ones the older."""
        scores = {path: read_notes(path).get("score") for path in self.weights()}
        scored = [(score, path) for path, score in scores.items() if score is not None]
        sign = 1 if self.better == "lower" else -1
        return [path for _, path in sorted(scored, key=lambda pair: sign * pair[0])[:count]]

    def to_average(self, config: AverageConfig) -> list[Path]:
        """The weights whose mean the settings ask for; fewer at the beginning of a run."""
        return self.best_weights(config.count) if config.of == "best" else self.weights()[-config.count :]

    def _check(self, step: int) -> None:
        """ModelError if the state of a step is not whole, or the weights beside it are not."""
        path, weights = self._state(step), self._weights(step)
        form = form_of(path) or self.form
        form.check(path)
        read_weights(weights)
        if read_checksum(weights) != form.notes(path)["weights_sha256"]:
            raise ModelError(f"{weights}: not the weights that belong to {path.name}")

    def _read(self, step: int, place: Place) -> dict[str, Any]:
        path = self._state(step)
        state = (form_of(path) or self.form).read(path, place)
        del state["weights_sha256"]
        return state if "weights" in state else {**state, "weights": read_weights(self._weights(step))}

    def _prune(self, newest: Path) -> None:
        """Removes what need not be kept now that there is a newest state."""
        states = [path for path in self.folder.glob("state-*") if form_of(path)]
        earlier = sorted(path for path in states if path.stem != newest.stem)
        lasting = [path for path in earlier if not (form_of(path) or self.form).notes(path).get("passing")]
        going_on = [*lasting, newest][-self.keep_last :]
        kept = {*going_on, *map(self._weights, _steps(going_on))}
        kept |= {*self.weights()[-self.keep_weights :], *self.best_weights(self.keep_best)}
        for path in [*states, *self.folder.glob("weights-*.safetensors")]:
            if path not in kept:
                _remove(path)

    def _drop_later_weights(self, step: int) -> None:
        """Removes weights whose state was never written: the run will make them again, or others."""
        if self._lock is not None:
            for later in _steps(self.folder.glob("weights-*.safetensors")):
                if later > step:
                    self._weights(later).unlink()

    def _set_aside(self, step: int) -> None:
        # Under their own names they would count among the last, and push out whole ones.
        for path in (self._state(step), self._weights(step)):
            if path.exists():
                aside = path.with_suffix(".broken")
                _remove(aside)
                path.rename(aside)

    def _state(self, step: int) -> Path:
        """The state of a step in the form that it has; in the form that it would get where there is none."""
        paths = [self._in_form(step, form) for form in FORMS]
        return next((path for path in paths if path.exists()), self._in_form(step, self.form))

    def _in_form(self, step: int, form: Form) -> Path:
        return self.folder / f"state-{step:08}{form.suffix}"

    def _weights(self, step: int) -> Path:
        return self.folder / f"weights-{step:08}.safetensors"


def _steps(paths: Iterable[Path]) -> list[int]:
    return sorted(int(number) for path in paths if (number := path.stem.partition("-")[2]).isdecimal())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _take(path: Path, folder: Path) -> int:
    """An open handle on a lock file that this process alone now has."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
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
