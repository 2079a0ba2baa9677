"""A measurement is made of the pairs that are there, in their order."""

import pytest

from clearhead.data.sources.corpus import Pair
from clearhead.errors import DataError
from clearhead.evaluation import scores
from clearhead.tasks.load import load
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.evaluate import held_out_pairs, measure, within_reach

PAIRS = [Pair(f"word {number}", f"das Wort {number} steht hier") for number in range(12)]
DIRECTION = Direction("en", "de")


def test_the_kept_test_pairs_are_the_default(tmp_path):
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "test.tsv").write_text("a\tb\n")
    assert held_out_pairs(None, tmp_path, DIRECTION).pairs == [Pair("a", "b")]
    for content in (None, ""):
        (tmp_path / "test.tsv").unlink() if content is None else (tmp_path / "test.tsv").write_text(content)
        with pytest.raises(
            DataError, match="no test pairs are kept beside this model; name a file with --pairs"
        ):
            held_out_pairs(None, tmp_path, DIRECTION)


def test_pairs_are_normalised_as_in_training_and_empty_ones_left_out(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\u00a0 b\tc \nd\t\n\te\nf\tg\n", encoding="utf-8")
    unseen = held_out_pairs(str(path), tmp_path, DIRECTION)
    assert unseen.pairs == [Pair("a b", "c"), Pair("f", "g")]
    assert (unseen.read, unseen.blank) == (4, 2)
    # What belongs to the pairs stays beside them.
    assert unseen.kept(["1", "2", "3", "4"]) == ["1", "4"]
    assert unseen.spread(["1", "4"]) == ["1", "", "", "4"]


def test_a_source_too_long_for_the_model_is_left_empty(number_model):
    model = load(number_model)
    max_length = "one " * model.max_length
    assert within_reach(model, [max_length, max_length + "two", "three"]) == [max_length, "", "three"]


def test_the_scores_are_those_of_the_evaluation(tmp_path):
    ours = [pair.target.replace("steht", "liegt") for pair in PAIRS]
    measured = measure(PAIRS, ours, "de")
    assert measured.sentences == 12
    assert measured.scores == scores(ours, [pair.target for pair in PAIRS], "de")
    assert sum(bucket.sentences for bucket in measured.by_length) == 12
    assert measured.comparisons == []


def test_a_better_rival_is_told_from_chance():
    ours = [pair.target.replace("steht", "liegt") for pair in PAIRS]
    theirs = [pair.target for pair in PAIRS]
    bleu = measure(PAIRS, ours, "de", theirs).comparisons[0]
    assert bleu.ours.value < bleu.theirs.value
    assert bleu.p_value < 0.05
