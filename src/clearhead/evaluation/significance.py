"""Tests whether the difference between two systems is significant."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from clearhead.errors import DataError, SettingsError
from clearhead.evaluation.bleu import bleu_metric
from clearhead.evaluation.metric import check_lines

# All samples are in memory at once; more lines would take gigabytes.
MAX_RESAMPLED_LINES = 10_000_000


@dataclass(frozen=True)
class Estimate:
    """A score with its 95 % confidence interval over resampled test sets."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences; with a small `p_value`, chance hardly explains the difference."""

    name: str
    ours: Estimate
    theirs: Estimate
    p_value: float
    signature: str


def paired_bootstrap(
    ours: Sequence[str], theirs: Sequence[str], references: Sequence[str], language: str, samples: int = 1000
) -> list[Comparison]:
    """BLEU and chrF of two systems by sacreBLEU's paired bootstrap resampling (Koehn 2004).

    The seed is fixed; SACREBLEU_SEED changes it, and the signature contains it.
    """
    check_lines(ours=ours, theirs=theirs, references=references)
    if samples < 1:
        raise SettingsError(f"samples: {samples} should be at least 1")
    if samples * len(references) > MAX_RESAMPLED_LINES:
        limit = MAX_RESAMPLED_LINES // samples
        raise DataError(f"{len(references)} lines are too many to resample; compare on at most {limit}")
    metrics: dict[str, Metric] = {"BLEU": bleu_metric(language), "chrF": CHRF()}
    signatures, results = PairedTest(
        [("theirs", theirs), ("ours", ours)], metrics, [references], test_type="bs", n_samples=samples
    )()
    comparisons = []
    for name, signature in signatures.items():
        baseline, result = (one for one in results[name] if isinstance(one, Result))
        # sacreBLEU reports equal scores as significant.
        p_value = 1.0 if result.score == baseline.score else result.p_value or 0.0
        comparisons.append(Comparison(name, _estimate(result), _estimate(baseline), p_value, str(signature)))
    return comparisons


def _estimate(result: Result) -> Estimate:
    mean, half = float(result.mean or 0), float(result.ci or 0)
    return Estimate(result.score, mean - half, mean + half)
