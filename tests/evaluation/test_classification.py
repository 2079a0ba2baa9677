"""Scores of classifiers equal those of scikit-learn; calibration errors those of their definition."""

import numpy as np
import pytest

from clearhead.evaluation.classification import Calibration, Confusion, LabelSets

metrics = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("classes", [2, 5])
def test_one_class_per_example_is_scored_as_by_scikit_learn(classes: int):
    random = np.random.default_rng(classes)
    correct, guesses = random.integers(classes, size=(2, 300))
    predicted = np.where(random.random(300) < 0.6, correct, guesses)
    found = Confusion.of(correct.tolist(), predicted.tolist(), classes)
    np.testing.assert_array_equal(found.counts, metrics.confusion_matrix(correct, predicted))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(correct, predicted))
    assert found.by_class.micro_f1 == pytest.approx(found.accuracy)
    precision, recall, f1, support = metrics.precision_recall_fscore_support(correct, predicted)
    np.testing.assert_allclose(found.by_class.precision, precision)
    np.testing.assert_allclose(found.by_class.recall, recall)
    np.testing.assert_allclose(found.f1, f1)
    np.testing.assert_array_equal(found.by_class.actual, support)
    assert found.macro_f1 == pytest.approx(metrics.f1_score(correct, predicted, average="macro"))


def test_several_labels_per_example_are_scored_as_by_scikit_learn():
    random = np.random.default_rng(0)
    correct = random.random((200, 6)) < 0.3
    predicted = correct ^ (random.random((200, 6)) < 0.1)
    found = LabelSets(correct, predicted)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(correct, predicted))
    for average in ("micro", "macro"):
        expected = metrics.f1_score(correct, predicted, average=average)
        assert getattr(found.by_class, f"{average}_f1") == pytest.approx(expected)
    np.testing.assert_allclose(found.by_class.f1, metrics.f1_score(correct, predicted, average=None))


def test_a_class_that_neither_occurs_nor_is_predicted_is_left_out_of_macro_f1():
    correct, predicted = [0, 0, 1, 1], [0, 1, 1, 1]
    found = Confusion.of(correct, predicted, 4)
    assert np.isnan(found.f1[[2, 3]]).all()
    assert found.absent == [2, 3]
    expected = metrics.f1_score(correct, predicted, labels=range(4), average="macro", zero_division=np.nan)
    assert found.macro_f1 == pytest.approx(expected)


def by_definition(probability: np.ndarray, right: np.ndarray, bins: int) -> float:
    """Equation 3 of Guo et al. 2017, bin by bin."""
    total = 0.0
    for number in range(bins):
        inside = (probability > number / bins) & (probability <= (number + 1) / bins)
        if inside.any():
            total += inside.sum() / len(right) * abs(right[inside].mean() - probability[inside].mean())
    return total


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_calibration_error_is_that_of_its_definition(bins: int):
    random = np.random.default_rng(bins)
    probability = random.uniform(0.01, 1, size=1000)
    right = random.random(1000) < probability**2
    found = Calibration.of(probability, right, bins)
    assert found.error == pytest.approx(by_definition(probability, right, bins))
    assert found.counts.sum() == 1000


def test_calibrated_probabilities_have_a_smaller_error_than_overconfident_ones():
    random = np.random.default_rng(3)
    probability = random.uniform(0.5, 1, size=20000)
    honest = random.random(20000) < probability
    assert Calibration.of(probability, honest).error < 0.02
    always = np.ones(20000)
    assert Calibration.of(always, honest).error == pytest.approx(0.25, abs=0.01)


def test_the_edges_of_the_bins_belong_to_the_bin_below():
    found = Calibration.of(np.array([0.0, 0.5, 1.0]), np.array([False, True, True]), bins=2)
    assert found.counts.tolist() == [2, 1]
    assert found.error == pytest.approx(2 / 3 * 0.25)
