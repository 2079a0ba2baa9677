"""How far a job has come: what a terminal shows, and what is said elsewhere."""

import io
import re
import sys

import pytest

from clearhead.cli import options, progress


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (3600, "1 h 00 min"), (7325, "2 h 02 min")],
)
def test_durations_are_said_as_people_say_them(seconds, said):
    assert progress.duration(seconds) == said


def test_progress_counts_from_where_a_resumed_job_began(monkeypatch, capsys):
    clock = iter([0.0, 100.0, 110.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.Progress("training", "steps") as shown:
        shown.begin(1000, before=980)
        shown.at(990, "loss 1")
    assert capsys.readouterr().err == "training 990 of 1,000: 1.0 steps/s, 10 s left  loss 1\n"


class Terminal(io.StringIO):
    """Somebody looks on."""

    def isatty(self) -> bool:
        return True


def drawn(terminal: Terminal) -> list[str]:
    """The lines that were there at one time or another, as they are read."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time, which goes on when a test says so."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        (80, "3 h 26 min left  loss 7.636"),
        (200, "3 h 26 min left  loss 7.636  2.0 steps/s  3,036 tokens/s  padding 0.0%  rate 1.00e-03"),
    ],
)
def test_a_narrow_terminal_shows_the_bar_the_step_the_time_left_and_the_loss(
    columns, end, monkeypatch, clock
):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.Progress("training", "steps") as shown:
        shown.begin(25_000)
        clock[0] += 100
        shown.at(200, "loss 7.636", "3,036 tokens/s", "padding 0.0%", "rate 1.00e-03")
    assert re.fullmatch(rf"training ━+[╸╺]?━* 200/25,000 steps {re.escape(end)}", drawn(terminal)[-1])
    assert max(map(len, drawn(terminal))) <= columns


def test_what_is_said_at_the_end_of_a_run_stands_below_its_bar(call, number_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(options, "tell", terminal.write)
    monkeypatch.setenv("COLUMNS", "80")
    recipe = number_recipe(tmp_path, steps=4)
    assert call("train", recipe, "--out", tmp_path / "run").code == 0
    lines = drawn(terminal)
    assert lines[-1] == str(tmp_path / "run")
    last_bar = max(number for number, line in enumerate(lines) if line.startswith("training ━"))
    assert last_bar < next(number for number, line in enumerate(lines) if "the model is in" in line)


def test_a_result_within_a_run_has_a_line_to_itself(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.Progress("training", "steps") as shown:
        shown.begin(2)
        shown.at(1)
        with shown.aside():
            terminal.write("result\n")
        shown.at(2)
    assert "result" in drawn(terminal)
    assert drawn(terminal)[-1].endswith("2/2 steps")


@pytest.mark.parametrize(("size", "shown"), [(30_000_000, True), (3_000_000, False)])
def test_only_the_reading_of_large_files_is_shown_and_only_to_who_looks_on(size, shown, monkeypatch, capsys):
    follow = progress.Reading()
    for done in (0, size // 2, size, size // 4, size):  # two passes
        follow(done, size)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    for done in (0, size // 2, size, size // 4, size):
        follow(done, size)
    hidden_cursor = "\x1b[?25l"
    assert terminal.getvalue().count(hidden_cursor) == (2 if shown else 0)
    assert ("30/30 MB" in terminal.getvalue()) is shown


def test_each_pass_over_files_has_its_name_and_a_speed_of_its_own(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    follow = progress.Reading()
    for done in (0, 40_000_000):
        clock[0] += 2
        follow(done, 60_000_000)
    follow.what = "learning the tokenizer"
    follow(1_000_000, 60_000_000)
    clock[0] += 4
    follow(5_000_000, 60_000_000)
    for done in (0, 60_000_000):
        follow(done, 60_000_000)
    first, second = ([line for line in drawn(terminal) if line.startswith(what)] for what in ("re", "le"))
    assert first[-1].endswith("40/60 MB 1 s left  20.0 MB/s")
    assert second[0].endswith("0/60 MB")
    assert any(line.endswith("5/60 MB 44 s left  1.2 MB/s") for line in second)
    assert second[-1].endswith("60/60 MB")
