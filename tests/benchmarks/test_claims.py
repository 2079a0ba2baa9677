"""The claims of the lectures: their arithmetic, and each command end to end on a tiny scale."""

import json
import random
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from benchmarks.claims import claim, gradients, lengths, positions, speed

from clearhead.data.pair import Pair

TINY = ("positions", "gradients", "lengths", "scores", "table3", "speed")


def pairs(count: int) -> list[Pair]:
    """Pairs of 3 to 10 words that all differ."""
    rng = random.Random(0)
    sizes = [rng.randint(3, 10) for _ in range(count)]
    sides = ("s", "t")
    return [
        Pair(*(" ".join(f"{side}{row}.{word}" for word in range(size)) for side in sides))
        for row, size in enumerate(sizes)
    ]


def run(name: str, out: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["claim", "--out", str(out), "--device", "cpu", *arguments])
    claim.main(import_module(f"benchmarks.claims.{name}").CLAIM)


def test_joined_pairs_have_the_wanted_length_and_use_each_pair_at_most_once():
    wanted = [10, 20, 60, 35, 13] * 4
    found = list(lengths.joined(pairs(400), wanted))
    assert [len(pair.source.split()) for pair in found] == wanted
    words = [word for pair in found for word in pair.source.split()]
    assert len(set(words)) == len(words)


def test_both_sides_of_a_joined_pair_are_joined_in_the_same_order():
    for source, target in lengths.joined(pairs(100), [30] * 5):
        assert source.replace("s", "t") == target


def test_joining_ends_when_no_pairs_are_left():
    assert list(lengths.joined([Pair("a b c", "x")], [10])) == []


def test_the_lectures_verdicts_on_order_numbers_fractions_and_sinusoids_are_measured():
    # Unique, consistent distance, bounded, deterministic.
    assert positions.verdicts(positions.criteria("order")) == [True, True, False, True]
    assert positions.verdicts(positions.criteria("fraction")) == [True, False, True, False]
    assert positions.verdicts(positions.criteria("sinusoidal")) == [True, True, True, True]
    assert positions.verdicts(positions.criteria("none"))[0] is False


def test_the_answers_of_the_order_tasks_are_those_of_the_words():
    generator = torch.Generator().manual_seed(1)
    for row, _, answer in zip(*positions.examples("first", 20, 9, generator), strict=True):
        words = row.tolist()
        assert answer == (words.index(positions.MARK) < words.index(positions.OTHER))
    for row, at, answer in zip(*positions.examples("before", 20, 9, generator), strict=True):
        words = row.tolist()
        assert words.index(positions.MARK) == at
        assert words[at - 1] - positions.FIRST_WORD == answer


def test_the_gradient_of_an_rnn_is_the_product_of_its_jacobians():
    model = gradients.Reader("RNN").double()
    layer = model.network.layer.kernel
    x = model.embedding(torch.randint(10, (1, 4), generator=torch.Generator().manual_seed(0))).detach()
    states, _ = model.network.layer(x)
    jacobian = torch.eye(gradients.WIDTH, dtype=torch.float64)
    for state in states[0].flip(0)[:-1]:
        jacobian = jacobian @ (torch.diag(1 - state**2) @ layer.weight_hh_l0)
    jacobian = jacobian @ torch.diag(1 - states[0, 0] ** 2) @ layer.weight_ih_l0
    own = torch.autograd.functional.jacobian(lambda x: model.network(x)[0], x)[:, 0, 0]
    torch.testing.assert_close(own, jacobian)


def test_one_word_is_both_first_and_last():
    assert gradients.gradient(gradients.Reader("GRU").double(), 1) == 1.0


def test_the_exponent_of_quadratic_growth_is_two():
    sizes = [8, 16, 32]
    record = {"model": "a", "lengths": sizes, **{f"{speed.BATCHES[0]} {n}": 3e-6 * n**2 for n in sizes}}
    assert speed.growth([record], "a", speed.BATCHES[0]) == pytest.approx(2.0)


def test_a_mean_is_shown_with_the_standard_deviation_over_seeds():
    assert claim.text([1.0, 2.0, 3.0]) == "2.0 ± 1.0"
    assert claim.text([1.0]) == "1.0"
    assert claim.text([]) == "–"


@pytest.mark.parametrize("name", TINY)
def test_a_claim_is_measured_reported_drawn_and_read_back(name, tmp_path, monkeypatch, capsys):
    run(name, tmp_path, monkeypatch, "--tiny")
    first = capsys.readouterr().out
    assert "The lectures" in first
    assert (tmp_path / f"claims-{name}.png").stat().st_size > 1000
    run(name, tmp_path, monkeypatch, "--from", str(tmp_path))
    assert capsys.readouterr().out == first


def test_another_seed_adds_to_the_results_and_the_same_seed_replaces_them(tmp_path, monkeypatch):
    for seed in ("1", "2", "2"):
        run("gradients", tmp_path, monkeypatch, "--tiny", "--seeds", seed)
    records = json.loads((tmp_path / "claims-gradients-cpu.json").read_text())["records"]
    assert sorted(record["seed"] for record in records) == [1, 1, 2, 2]


def test_resuming_measures_only_what_is_missing(tmp_path, monkeypatch, capsys):
    run("positions", tmp_path, monkeypatch, "--tiny")
    capsys.readouterr()
    run("positions", tmp_path, monkeypatch, "--tiny", "--seeds", "1", "2", "--resume")
    assert [line.split("/")[0] for line in capsys.readouterr().err.splitlines()] == ["1", "2"]


def test_alignment_on_a_tiny_scale(measuring_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CLEARHEAD_DATA", str(measuring_data))
    run("alignment", tmp_path, monkeypatch, "--tiny")
    assert "the diagonal" in capsys.readouterr().out


def test_reading_results_that_do_not_exist_says_so(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="holds no results of the claim 'gradients'"):
        run("gradients", tmp_path, monkeypatch, "--from", str(tmp_path))
