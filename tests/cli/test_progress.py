"""Progress: bars on a terminal, lines elsewhere."""

import io
import re
import sys

import pytest

from clearhead.cli import console, progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (3600, "1 h 00 min"), (7325, "2 h 02 min")],
)
def test_durations_are_readable(seconds, text):
    assert progress.format_duration(seconds) == text


def test_the_rate_of_a_resumed_job_excludes_earlier_steps(monkeypatch, capsys):
    clock = iter([0.0, 100.0, 110.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.Progress("training", "step") as shown:
        shown.start(1000, initial=980)
        shown.update(990, "loss 1")
    assert capsys.readouterr().err == "step 990 of 1,000: 1.0 steps/s, 10 s left, loss 1\n"


def test_units_have_a_plural(capsys):
    with progress.Progress("evaluating", "batch") as shown:
        shown.start(1)
        shown.update(1)
    assert "batches/s" in capsys.readouterr().err


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def lines_of(terminal: Terminal) -> list[str]:
    """All lines that were ever shown, without escape codes."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time, advanced by the tests."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        (80, "3 h 26 min left  loss 7.636"),
        (200, "3 h 26 min left  loss 7.636  2.0 steps/s  3,036 tokens/s  padding 0.0%  lr 1.00e-03"),
    ],
)
def test_a_narrow_terminal_shows_bar_step_time_left_and_loss(columns, end, monkeypatch, clock):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.Progress("training", "step") as shown:
        shown.start(25_000)
        clock[0] += 100
        shown.update(200, "loss 7.636", "3,036 tokens/s", "padding 0.0%", "lr 1.00e-03")
    assert re.fullmatch(rf"training ━+[╸╺]?━* 200/25,000 steps {re.escape(end)}", lines_of(terminal)[-1])
    assert max(map(len, lines_of(terminal))) <= columns


def test_the_last_messages_of_a_run_appear_below_its_bar(call, number_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(console, "write_result", terminal.write)
    monkeypatch.setenv("COLUMNS", "80")
    recipe = number_recipe(tmp_path, steps=4)
    assert call("train", recipe, "--out", tmp_path / "run").code == 0
    lines = lines_of(terminal)
    assert lines[-1] == str(tmp_path / "run")
    last_bar = max(number for number, line in enumerate(lines) if line.startswith("training ━"))
    assert last_bar < next(number for number, line in enumerate(lines) if "the model is in" in line)


def test_a_result_during_a_run_gets_its_own_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.Progress("training", "step") as shown:
        shown.start(2)
        shown.update(1)
        with shown.hidden():
            terminal.write("result\n")
        shown.update(2)
    assert "result" in lines_of(terminal)
    assert lines_of(terminal)[-1].endswith("2/2 steps")


@pytest.mark.parametrize(("size", "shown"), [(30_000_000, True), (3_000_000, False)])
def test_reading_large_files_shows_bars_on_a_terminal_only(size, shown, monkeypatch, capsys):
    follow = progress.FileProgress()
    for done in (0, size // 2, size, size // 4, size):  # two passes
        follow(done, size)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    for done in (0, size // 2, size, size // 4, size):
        follow(done, size)
    hidden_cursor = "\x1b[?25l"
    assert terminal.getvalue().count(hidden_cursor) == (2 if shown else 0)
    assert ("30/30 MB" in terminal.getvalue()) is shown


def test_each_pass_over_files_has_its_own_label_and_rate(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    follow = progress.FileProgress()
    for done in (0, 40_000_000):
        clock[0] += 2
        follow(done, 60_000_000)
    follow.label = "learning the tokenizer"
    follow(1_000_000, 60_000_000)
    clock[0] += 4
    follow(5_000_000, 60_000_000)
    for done in (0, 60_000_000):
        follow(done, 60_000_000)
    first, second = (
        [line for line in lines_of(terminal) if line.startswith(label)] for label in ("re", "le")
    )
    assert first[-1].endswith("40/60 MB 1 s left  20.0 MB/s")
    assert second[0].endswith("0/60 MB")
    assert any(line.endswith("5/60 MB 44 s left  1.2 MB/s") for line in second)
    assert second[-1].endswith("60/60 MB")


def test_rates_are_those_of_what_was_written(monkeypatch, clock):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.Progress("translating", "line") as shown:
        shown.start(100)
        clock[0] += 10
        shown.add(sentence=30, token=1200)
        shown.add(sentence=15, token=900)
        shown.update(50)
        assert shown.summary() == "45 sentences and 2,100 tokens in 10 s: 4.5 sentences/s, 210 tokens/s"
    assert lines_of(terminal)[-1].endswith("50/100 lines 10 s left  4.5 sentences/s  210 tokens/s")


def test_a_second_pass_has_rates_of_its_own(clock):
    with progress.Progress("evaluating", "sentence") as shown:
        for tokens in (100, 40):
            shown.start(1)
            clock[0] += 4
            shown.add(sentence=1, token=tokens)
        assert shown.rates() == ["0.2 sentences/s", "10.0 tokens/s"]


def test_translated_lines_end_with_one_line_of_rates_on_a_terminal(call, number_model, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert call("translate", "--model", number_model, stdin=b"one two\n\nthree\n").lines[1] == ""
    assert re.fullmatch(
        r"2 sentences and \d+ tokens in \d+ s: [\d.,]+ sentences/s, [\d.,]+ tokens/s", lines_of(terminal)[-1]
    )
    assert any(line.startswith("translating ━") for line in lines_of(terminal))


def test_elsewhere_only_long_translations_end_with_rates(call, number_model, monkeypatch, clock):
    assert call("translate", "--model", number_model, stdin=b"one two\n").err == ""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    assert "1 sentence and " in call("translate", "--model", number_model, stdin=b"one two\n").err
    assert call("translate", "--model", number_model, stdin=b"").err == ""


def test_evaluation_of_a_translator_shows_tokens_per_second(call, number_model):
    assert re.search(
        r"^sentence (\d+) of \1: [\d.,]+ sentences/s, [\d.,]+ tokens/s",
        call("evaluate", number_model).err,
        re.MULTILINE,
    )
