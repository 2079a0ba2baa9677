"""The paired bootstrap equals sacreBLEU's and separates real differences from chance."""

import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from clearhead.errors import DataError, SettingsError
from clearhead.evaluation.significance import paired_bootstrap


def test_the_comparison_equals_sacrebleus_own(texts):
    found = paired_bootstrap(texts.good, texts.bad, texts.references, "de", samples=200)
    signatures, results = PairedTest(
        [("baseline", texts.bad), ("system", texts.good)],
        {"BLEU": sacrebleu.BLEU(), "chrF": sacrebleu.CHRF()},
        [texts.references],
        test_type="bs",
        n_samples=200,
    )()
    assert [one.name for one in found] == ["BLEU", "chrF2"]
    for one in found:
        theirs, ours = results[one.name]
        assert one.p_value == ours.p_value
        assert (one.ours.value, one.theirs.value) == (ours.score, theirs.score)
        assert one.ours.low == pytest.approx(ours.mean - ours.ci)
        assert one.theirs.high == pytest.approx(theirs.mean + theirs.ci)
        assert one.signature == str(signatures[one.name])


def test_scores_are_those_of_the_test_set_and_lie_in_their_intervals(texts):
    one = paired_bootstrap(texts.good, texts.bad, texts.references, "de", samples=200)[0]
    assert one.ours.value == sacrebleu.corpus_bleu(texts.good, [texts.references]).score
    assert one.theirs.value == sacrebleu.corpus_bleu(texts.bad, [texts.references]).score
    assert one.ours.low < one.ours.value < one.ours.high
    assert one.theirs.low < one.theirs.value < one.theirs.high


def test_the_comparison_is_deterministic(texts):
    first, second = (
        paired_bootstrap(texts.good, texts.bad, texts.references, "de", samples=100) for _ in range(2)
    )
    assert first == second
    assert "seed:12345" in first[0].signature


def test_a_clear_difference_is_significant_and_a_tiny_one_is_not(texts):
    clear = paired_bootstrap(texts.good, texts.bad, texts.references, "de", samples=200)
    assert all(one.p_value < 0.01 for one in clear)
    nearly = [*texts.good[:-1], texts.good[-1] + " und"]
    tiny = paired_bootstrap(texts.good, nearly, texts.references, "de", samples=200)
    assert all(one.p_value > 0.05 for one in tiny)


def test_a_system_does_not_differ_from_itself(texts):
    found = paired_bootstrap(texts.good, texts.good, texts.references, "de", samples=50)
    assert [one.p_value for one in found] == [1.0, 1.0]


def test_different_line_counts_are_refused(texts):
    with pytest.raises(DataError) as caught:
        paired_bootstrap(texts.good, texts.bad[:100], texts.references, "de")
    assert str(caught.value) == (
        "line counts differ: 120 ours, 100 theirs, 120 references; give files that match line by line"
    )


def test_empty_input_is_refused():
    with pytest.raises(DataError, match="ours: no lines, nothing to score"):
        paired_bootstrap([], [], [], "de")


def test_too_many_lines_or_too_few_samples_are_refused():
    lines = ["ein Hund"] * 10_001
    with pytest.raises(DataError, match="10001 lines are too many to resample; compare on at most 10000"):
        paired_bootstrap(lines, lines, lines, "de")
    with pytest.raises(SettingsError, match="samples: 0 should be at least 1"):
        paired_bootstrap(["a"], ["b"], ["a"], "de", samples=0)
