"""Metrics compare and print values."""

from math import nan

import pytest

from clearhead.evaluation import ACCURACY, BITS_PER_BYTE, BLEU, LOSS, Metric


@pytest.mark.parametrize("metric", [LOSS, BITS_PER_BYTE])
def test_a_lower_loss_is_better(metric):
    assert metric.better(1.0, 2.0)
    assert not metric.better(2.0, 1.0)
    assert not metric.better(1.0, 1.0)


@pytest.mark.parametrize("metric", [BLEU, ACCURACY])
def test_a_higher_score_is_better(metric):
    assert metric.better(2.0, 1.0)
    assert not metric.better(1.0, 2.0)
    assert not metric.better(1.0, 1.0)


@pytest.mark.parametrize("metric", [LOSS, BLEU])
def test_every_number_is_better_than_nan(metric):
    assert metric.better(1.0, nan)
    assert not metric.better(nan, 1.0)
    assert not metric.better(nan, nan)


def test_values_are_printed_in_the_format_of_the_metric():
    assert LOSS.text(1.23456) == "1.235"
    assert BLEU(41.018) == "bleu 41.02"
    assert ACCURACY(0.9314) == "accuracy 93.1%"
    assert Metric("F1", higher_is_better=True, format="{:.1f}")(71.26) == "F1 71.3"
