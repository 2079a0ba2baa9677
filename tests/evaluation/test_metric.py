"""Metrics compare and print values."""

from math import inf, nan

import pytest

from clearhead.evaluation.metric import ACCURACY, BITS_PER_BYTE, BLEU, LOSS, Metric


@pytest.mark.parametrize("metric", [LOSS, BITS_PER_BYTE])
def test_a_lower_loss_is_better(metric):
    assert metric.is_better(1.0, 2.0)
    assert not metric.is_better(2.0, 1.0)
    assert not metric.is_better(1.0, 1.0)


@pytest.mark.parametrize("metric", [BLEU, ACCURACY])
def test_a_higher_score_is_better(metric):
    assert metric.is_better(2.0, 1.0)
    assert not metric.is_better(1.0, 2.0)
    assert not metric.is_better(1.0, 1.0)


@pytest.mark.parametrize("metric", [LOSS, BLEU])
def test_the_first_finite_value_is_the_best_and_others_never_are(metric):
    assert metric.is_better(1.0, None)
    for value in (nan, inf, -inf):
        assert not metric.is_better(value, None)
        assert not metric.is_better(value, 1.0)


def test_values_are_printed_with_the_label_and_format_of_the_metric():
    assert LOSS.text(1.23456) == "loss 1.235"
    assert BLEU.text(41.018) == "BLEU 41.0"
    assert ACCURACY.text(0.9314) == "accuracy 93.1%"
    assert Metric("f1", "F1", higher_is_better=True, format=".2f").text(71.256) == "F1 71.26"
