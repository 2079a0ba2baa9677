"""Measurements on disk survive what a run survives."""

import errno
import json

import pytest

from clearhead.errors import TrainingError
from clearhead.tasks import records
from clearhead.tasks.records import CURVES, METRICS, Records, draw_curves, read_metrics


def keep(folder, *steps: int, after: int = 0) -> None:
    """A part of a run that measured something at each step, resumed after one."""
    kept = Records(folder, after)
    for step in steps:
        kept.add(step, "train", {"loss": 1 / step, "bleu": None})
    kept.close()


def test_what_was_measured_is_read_again(tmp_path):
    keep(tmp_path, 1, 2)
    assert read_metrics(tmp_path) == [
        {"step": 1, "kind": "train", "loss": 1.0},
        {"step": 2, "kind": "train", "loss": 0.5},
    ]
    assert list((tmp_path / "training" / "tensorboard").glob("events*"))


def test_on_resuming_what_will_come_again_is_dropped(tmp_path):
    keep(tmp_path, 1, 2, 3, 4)
    keep(tmp_path, 3, 4, 5, after=2)
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_last_line_cut_by_a_crash_is_left_out_and_written_anew(tmp_path):
    keep(tmp_path, 1, 2, 3)
    path = tmp_path / METRICS
    path.write_bytes(path.read_bytes()[:-9])
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]
    keep(tmp_path, 3, after=2)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_foreign_lines_are_left_out(tmp_path):
    (tmp_path / METRICS).write_bytes(b'3\n"step"\n{}\n\xff\n{"step": 1, "kind": "train", "loss": 2}\n')
    assert read_metrics(tmp_path) == [{"step": 1, "kind": "train", "loss": 2}]


def test_a_folder_without_measurements_has_none(tmp_path):
    assert read_metrics(tmp_path) == []


def test_a_kill_while_the_file_is_rewritten_loses_nothing(tmp_path, monkeypatch):
    keep(tmp_path, 1, 2, 3)
    before = (tmp_path / METRICS).read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(records.Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        keep(tmp_path, after=2)
    assert (tmp_path / METRICS).read_bytes() == before


@pytest.mark.parametrize(
    "measured", [[], [("train", {"loss": 2.0})], [("validation", {"loss": 1.0, "bleu": 20.0})]]
)
def test_curves_are_drawn_of_whatever_was_measured(measured, tmp_path):
    kept = Records(tmp_path, 0)
    for kind, values in measured:
        kept.add(1, kind, values)
        kept.add(2, kind, values)
    kept.close()
    assert draw_curves(tmp_path) == tmp_path / CURVES
    assert (tmp_path / CURVES).read_bytes().startswith(b"\x89PNG")


def test_a_full_disk_is_named_by_file(tmp_path, monkeypatch):
    kept = Records(tmp_path, 0)

    class Full:
        def write(self, text: str = "") -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        close = flush = write

    kept._file.close()
    monkeypatch.setattr(kept, "_file", Full())
    with pytest.raises(
        TrainingError, match=r"metrics\.jsonl: cannot be written \(No space left on device\); make"
    ):
        kept.add(1, "train", {"loss": 1.0})
    kept.close()
