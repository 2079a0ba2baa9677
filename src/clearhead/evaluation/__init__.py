"""Metrics and tests of how good a model's output is."""

from clearhead.evaluation.bleu import scores
from clearhead.evaluation.by_length import LengthBucket, by_length
from clearhead.evaluation.metric import ACCURACY, BITS_PER_BYTE, BLEU, LOSS, Metric, Score
from clearhead.evaluation.significance import Comparison, Estimate, paired_bootstrap

__all__ = [
    "ACCURACY",
    "BITS_PER_BYTE",
    "BLEU",
    "LOSS",
    "Comparison",
    "Estimate",
    "LengthBucket",
    "Metric",
    "Score",
    "by_length",
    "paired_bootstrap",
    "scores",
]
