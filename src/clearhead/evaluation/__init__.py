"""How good a model's output is."""

from clearhead.evaluation.bleu import scores
from clearhead.evaluation.by_length import LengthBucket, by_length
from clearhead.evaluation.score import Score
from clearhead.evaluation.significance import Comparison, Estimate, paired_bootstrap

__all__ = ["Comparison", "Estimate", "LengthBucket", "Score", "by_length", "paired_bootstrap", "scores"]
