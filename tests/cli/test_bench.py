"""clearhead bench MODEL."""

import json
import shutil

import pytest

from clearhead.interop import peers
from clearhead.tasks import speed


@pytest.fixture
def bench(call, monkeypatch):
    monkeypatch.setattr(speed, "WARM_UP_STEPS", 0)

    def run(*arguments):
        return call("bench", *arguments, "--rounds", 1, "--seconds", 0, "--device", "cpu")

    return run


def test_a_table_for_each_case_and_the_times_of_loading(bench, number_model):
    result = bench(number_model)
    assert result.code == 0, result.err
    titles = [line for line in result.lines if not line.startswith("  ")]
    assert titles[0] == f"{number_model} on cpu, 1 thread: 40 sentences from its test data"
    assert [title.split("  ")[0] for title in titles[1:]] == [
        *("batch 1, greedy", "batch 32, greedy", "batch 1, beam 4", "batch 32, beam 4"),
        "seconds",
    ]
    assert titles[1].split()[3:] == ["sentences/CPU-s", "tokens/CPU-s", "spread", "relative"]
    assert sum(line.startswith("  clearhead fp32") for line in result.lines) == 5
    assert max(map(len, result.lines[1:])) <= 80


def test_json_has_an_object_for_each_rate(bench, gpt_model, monkeypatch):
    monkeypatch.setattr(peers.Peer, "is_installed", False)
    result = bench(gpt_model, "--json")
    records = [json.loads(line) for line in result.lines]
    rates = [one for one in records if "batch" in one]
    assert {(one["batch"], one["beam"]) for one in rates} == {(1, 1), (8, 1)}
    assert all(one["tokens_per_cpu_second"] > 0 and one["threads"] == 1 for one in rates)
    assert {one["name"] for one in rates} == {one["name"] for one in records if "load_seconds" in one}
    assert "not installed: CTranslate2; install it: pip install 'clearhead[export]'" in result.err
    assert "not installed: Hugging Face; install it: pip install transformers" in result.err


def test_texts_of_a_file_and_texts_of_our_own(bench, number_model, tmp_path, monkeypatch, error_of):
    monkeypatch.setattr(peers.Peer, "is_installed", False)
    copied = shutil.copytree(number_model, tmp_path / "copied")
    (tmp_path / "texts.txt").write_text("one two\n\nthree\n")
    found = bench(copied, "--input", tmp_path / "texts.txt", "--threads", 2)
    assert found.lines[0] == f"{copied} on cpu, 2 threads: 2 sentences from the file"
    (copied / "test.tsv").unlink()
    assert bench(copied).lines[0].endswith(" sentences built in")
    (tmp_path / "texts.txt").write_text("\n")
    error = error_of("bench", copied, "--input", tmp_path / "texts.txt")
    assert error == f"--input {tmp_path / 'texts.txt'}: has no text; name a file with one text per line"
