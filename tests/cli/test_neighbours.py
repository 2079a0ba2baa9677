"""clearhead neighbours, and evaluate, export and import of word vectors, as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest

from clearhead.interop.word2vec import write_vectors

VECTORS = {
    "man": [1.0, 0.0, 0.2],
    "woman": [0.0, 1.0, 0.2],
    "king": [1.0, 0.0, 2.0],
    "queen": [0.0, 1.0, 2.0],
    "apple": [-1.0, -1.0, 0.0],
}


@pytest.fixture
def vectors(call, tmp_path: Path) -> Path:
    """A model folder, imported from a file of word2vec."""
    write_vectors(tmp_path / "royal.bin", list(VECTORS), np.array([*VECTORS.values()], dtype=np.float32))
    result = call("import", tmp_path / "royal.bin", "--out", tmp_path / "royal")
    assert (result.code, result.out, result.err) == (0, f"{tmp_path / 'royal'}\n", "5 words, width 3\n")
    return tmp_path / "royal"


def test_an_analogy_is_a_sum_of_words(call, vectors: Path):
    result = call("neighbours", "king", "woman", "--minus", "man", "--model", vectors, "--n", 1)
    assert (result.code, result.lines[0].split()[0]) == (0, "queen")
    record = json.loads(
        call("neighbours", "king", "woman", "--minus", "man", "--model", vectors, "--json").out
    )
    assert record["neighbours"][0]["word"] == "queen"
    assert {one["word"] for one in record["neighbours"]} == {"queen", "apple"}
    assert (record["words"], record["minus"]) == (["king", "woman"], ["man"])


def test_a_text_moves_a_word_and_the_map_shows_it(call, vectors: Path, tmp_path: Path):
    out = tmp_path / "map.svg"
    arguments = ["neighbours", "king", "--in", "the king and the woman", "--model", vectors, "--out", out]
    result = call(*arguments)
    assert result.lines[0] == "without context"
    assert "in “the king and the woman”" in result.lines
    assert result.lines[-1].startswith("  attends to: king ")
    assert "king in “the king and the woman”" in out.read_text()
    weights = {}
    for score in ("cosine", "dot"):
        [context] = json.loads(call(*arguments, "--score", score, "--json").out)["contexts"]
        weights[score] = {one["word"]: one["weight"] for one in context["weights"]}
    assert weights["dot"]["king"] > weights["cosine"]["king"]


def test_a_transformer_gives_tokens_and_states(call):
    result = call("neighbours", "bank", "--in", "He sat on the bank of the river.", "--n", 3)
    assert result.code == 0, result.err
    static, inside = result.lines[1:4], result.lines[5:8]
    assert any("Bank" in line for line in static)
    assert result.lines[4] == "in “He sat on the bank of the river.”"
    assert static != inside


def test_the_tests_of_word_vectors_are_printed_by_section(call, vectors: Path, tmp_path: Path):
    (tmp_path / "pairs.txt").write_text("king queen 9\nking man 7\nking apple 1\nking car 3\n")
    (tmp_path / "analogies.txt").write_text(": family\nman woman king queen\n: other\na b c d\n")
    files = ["--words", tmp_path / "pairs.txt", "--words", tmp_path / "analogies.txt"]
    result = call("evaluate", vectors, *files)
    assert result.code == 0, result.err
    assert result.lines == [
        f"{vectors}, 5 words",
        "  pairs.txt: Spearman 1.000 (3 pairs tested, 1 skipped)",
        "  analogies.txt: 100.0% right (1 of 1 tested, 1 skipped)",
        "    family: 100.0% right (1 of 1 tested, 0 skipped)",
        "    other: 0.0% right (0 of 0 tested, 1 skipped)",
    ]
    assert "skipped: pairs with a word that has no vector" in result.err
    tests = json.loads(call("evaluate", vectors, *files, "--json").out)["tests"]
    assert [test["tested"] for test in tests] == [3, 1]


def test_vectors_are_exported_as_they_were_imported(call, vectors: Path, tmp_path: Path):
    result = call("export", vectors, "--to", "word2vec", "--out", tmp_path / "again.bin", "--json")
    assert json.loads(result.out) == {"file": str(tmp_path / "again.bin"), "words": 5, "width": 3}
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "royal.bin").read_bytes()


def test_errors_are_one_line(error_of, vectors: Path, babbler: Path, tmp_path: Path):
    model = ("--model", vectors)
    assert error_of("neighbours", "kingg", *model).endswith("(did you mean king?)")
    assert error_of("neighbours", "king", "man", "--in", "king", *model).startswith("--in: compares one word")
    assert error_of("neighbours", "bank", "--in", "nothing").startswith(
        "--in: does not contain the word 'bank'"
    )
    assert error_of("neighbours", "king", "--in", "nothing", *model).startswith("--in: none of its words has")
    assert error_of("neighbours", "king", "--in", "king", "--score", "general", *model) == (
        "--score: 'general' is not one of scaled, dot, cosine"
    )
    assert error_of("neighbours", "bank", "--in", "bank", "--score", "dot").startswith(
        "--score dot: needs word"
    )
    assert error_of("neighbours", "king", *model, "--out", tmp_path / "map.gif").endswith(
        "not a picture; use .png, .svg, .pdf"
    )
    assert error_of("neighbours", "king", "--minus", "king", *model) == (
        "words: their vector is zero, which has no direction; choose other words"
    )
    assert "word vectors are tested on files: --words" in error_of("evaluate", vectors)
    assert error_of("evaluate", vectors, "--text", "x").endswith("holds word vectors; it takes --words")
    assert error_of("explore", vectors).endswith("has no explanations; use clearhead neighbours")
    assert error_of("translate", "x", *model).endswith(
        "this model holds word vectors; use clearhead neighbours"
    )
    assert "not a folder" in error_of("import", tmp_path / "royal.bin", "--out", tmp_path / "royal.bin")
    assert error_of("import", tmp_path / "no.bin", "--out", tmp_path / "x").endswith("no.bin: no such file")


def test_training_names_the_commands_that_use_and_test_the_vectors(call, tmp_path: Path):
    (tmp_path / "text.txt").write_text("the king and the queen\n" * 20)
    (tmp_path / "vectors.toml").write_text(
        f'kind = "word_vectors"\n[data]\ntrain = ["{tmp_path}/text.txt"]\n[training]\nepochs = 1\n'
    )
    result = call("train", tmp_path / "vectors.toml", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert f"try it: clearhead neighbours --model {tmp_path / 'run'} " in result.err
    assert f"evaluate it: clearhead evaluate {tmp_path / 'run'} --words FILE\n" in result.err


def test_a_word_of_several_tokens_is_pointed_out(call):
    result = call("neighbours", "Donaudampfschiff")
    assert result.err.startswith("Donaudampfschiff: ")
    assert result.err.endswith("; their mean is compared\n")
    assert call("neighbours", "house").err == ""
