"""Recorded metrics survive crashes, kills and a full disk."""

import errno
import json

import pytest

from clearhead.errors import TrainingError
from clearhead.evaluation.metric import BLEU, LOSS
from clearhead.tasks import records
from clearhead.tasks.records import CURVES, METRICS, Records, draw_curves, read_metrics


def record(folder, *steps: int, after: int = 0) -> None:
    """Records a metric at each step, as a run that was resumed after one."""
    records = Records(folder, after)
    for step in steps:
        records.add(step, "train", {"loss": 1 / step, "bleu": None})
    records.close()


def test_recorded_metrics_can_be_read(tmp_path):
    record(tmp_path, 1, 2)
    assert read_metrics(tmp_path) == [
        {"step": 1, "kind": "train", "loss": 1.0},
        {"step": 2, "kind": "train", "loss": 0.5},
    ]
    assert list((tmp_path / "training" / "tensorboard").glob("events*"))


def test_resuming_drops_metrics_after_the_saved_step(tmp_path):
    record(tmp_path, 1, 2, 3, 4)
    record(tmp_path, 3, 4, 5, after=2)
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_line_cut_off_by_a_crash_is_skipped_and_overwritten(tmp_path):
    record(tmp_path, 1, 2, 3)
    path = tmp_path / METRICS
    path.write_bytes(path.read_bytes()[:-9])
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]
    record(tmp_path, 3, after=2)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_lines_that_are_no_metrics_are_skipped(tmp_path):
    (tmp_path / METRICS).write_bytes(b'3\n"step"\n{}\n\xff\n{"step": 1, "kind": "train", "loss": 2}\n')
    assert read_metrics(tmp_path) == [{"step": 1, "kind": "train", "loss": 2}]


def test_a_folder_without_records_has_no_metrics(tmp_path):
    assert read_metrics(tmp_path) == []


def test_a_kill_while_the_file_is_rewritten_loses_nothing(tmp_path, monkeypatch):
    record(tmp_path, 1, 2, 3)
    before = (tmp_path / METRICS).read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(records.Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        record(tmp_path, after=2)
    assert (tmp_path / METRICS).read_bytes() == before


@pytest.mark.parametrize(
    "measured", [[], [("train", {"loss": 2.0})], [("validation", {"loss": 1.0, "bleu": 20.0})]]
)
def test_curves_are_drawn_from_whichever_metrics_exist(measured, tmp_path):
    written = Records(tmp_path, 0)
    for kind, values in measured:
        written.add(1, kind, values)
        written.add(2, kind, values)
    written.close()
    assert draw_curves(tmp_path, (LOSS, BLEU)) == tmp_path / CURVES
    assert (tmp_path / CURVES).read_bytes().startswith(b"\x89PNG")


def test_an_error_on_a_full_disk_names_the_file(tmp_path, monkeypatch):
    written = Records(tmp_path, 0)

    class Full:
        def write(self, text: str = "") -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        close = flush = write

    written._file.close()
    monkeypatch.setattr(written, "_file", Full())
    with pytest.raises(
        TrainingError, match=r"metrics\.jsonl: cannot be written \(No space left on device\); free"
    ):
        written.add(1, "train", {"loss": 1.0})
    written.close()
