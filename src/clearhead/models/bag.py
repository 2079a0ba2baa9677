"""Bags of words: a linear model of the n-grams of a text, by their counts (Wang and Manning 2012)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.data.bags import Bags, BagVocabulary, Numbers, bags_of, distinct, ngrams_of, number_words
from clearhead.data.store import TokenSequences
from clearhead.errors import DataError, ModelError
from clearhead.models.anatomy import Anatomy

Logits = Float[Tensor, "texts classes"]
MAX_ITERATIONS = 1000
SKLEARN = "a bag of words is fitted by scikit-learn; install it: pip install 'clearhead[bags]'"


class BagConfig(Settings):
    """The settings of a bag of words; the defaults are NB-SVM's features with logistic regression."""

    kind: Literal["bag"] = "bag"
    max_ngram: int = Field(default=2, ge=1, le=3)
    """The longest n-grams: 1 for words alone, 2 for bigrams too, 3 for trigrams."""
    weighting: Literal["counts", "tfidf", "naive_bayes"] = "naive_bayes"
    """naive_bayes: whether an n-gram occurs, times its log-count ratio (Wang and Manning 2012)."""
    classifier: Literal["svm", "logistic"] = "logistic"
    C: PositiveFloat = 1.0
    """Inverse strength of the regularisation, as in LIBLINEAR (Fan et al. 2008)."""
    smoothing: PositiveFloat = 1.0
    """Added to the counts of n-grams before naive Bayes takes their ratio."""
    min_documents: PositiveInt = 1
    """N-grams in fewer training texts are left out."""
    lowercase: bool = True


@dataclass(frozen=True, eq=False)
class CountedTexts:
    """Training texts as bags: their vocabulary, the number of each n-gram, and the counts."""

    vocabulary: BagVocabulary
    ngrams: Numbers
    bags: Bags

    @classmethod
    def of(cls, texts: Sequence[str], labels: tuple[str, ...], config: BagConfig) -> "CountedTexts":
        """Counts the n-grams of texts, and keeps those in enough of them."""
        sequences, words = number_words(texts, config.lowercase, config.min_documents)
        base = len(words) + 1
        if base**config.max_ngram >= 1 << 63:
            raise DataError(
                f"{len(words):,} different words are too many for n-grams of {config.max_ngram}; "
                "lower model.max_ngram, or raise model.min_documents"
            )
        found, documents = ngrams_of(sequences, base, config.max_ngram)
        table, columns = distinct(found)
        bags = bags_of(documents, columns, len(texts), len(table))
        frequent = np.bincount(bags.columns, minlength=len(table)) >= config.min_documents
        if not frequent.any():
            raise DataError(
                f"no n-gram is in {config.min_documents} of {len(texts)} texts; lower model.min_documents"
            )
        if not frequent.all():
            keep = frequent[bags.columns]
            columns = (np.cumsum(frequent) - 1)[bags.columns[keep]]
            offsets = np.concatenate([[0], np.cumsum(keep)])[bags.offsets]
            table, bags = table[frequent], Bags(columns, bags.counts[keep], offsets)
        return cls(BagVocabulary(words, len(table), labels, config.lowercase), table, bags)


class Bag(nn.Module):
    """Adds up the weights of a text's n-grams; the order of the n-grams themselves does not count.

    With two classes, one column of weights holds the evidence for the second.
    """

    Config = BagConfig
    Processor = BagVocabulary
    ngrams: Tensor
    idf: Tensor
    temperature: Tensor

    def __init__(self, config: BagConfig, base: int, ngrams: int, classes: int):
        super().__init__()
        self.config, self.base, self.classes = config, base, classes
        columns = 1 if classes == 2 else classes
        self.weight = nn.Parameter(torch.zeros(ngrams, columns))
        self.bias = nn.Parameter(torch.zeros(columns))
        self.register_buffer("ngrams", torch.zeros(ngrams, dtype=torch.int64))
        if config.weighting == "tfidf":
            self.register_buffer("idf", torch.ones(ngrams))
        # Margins divided by it are the logits of calibrated probabilities (Guo et al. 2017).
        self.register_buffer("temperature", torch.ones(()))

    @classmethod
    def build(cls, config: BagConfig, processor: BagVocabulary) -> "Bag":
        return cls(config, processor.base, processor.ngrams, len(processor.labels))

    @classmethod
    def fit(
        cls,
        config: BagConfig,
        counted: CountedTexts,
        classes: Numbers,
        seed: int = 0,
        text_weights: NDArray[np.float32] | None = None,
    ) -> "tuple[Bag, bool]":
        """The model fitted to counted texts, and whether the solver converged."""
        model = cls.build(config, counted.vocabulary)
        model.ngrams.copy_(torch.from_numpy(counted.ngrams))
        bags, width = counted.bags, len(counted.ngrams)
        if config.weighting == "tfidf":
            frequency = np.bincount(bags.columns, minlength=width)
            model.idf.copy_(torch.from_numpy(np.log((1 + len(bags)) / (1 + frequency)) + 1))
        converged = True
        for column in range(model.weight.shape[1]):
            # One class against the rest; of two classes, the second against the first.
            chosen = classes == (1 if model.classes == 2 else column)
            values, scale = model.values(bags), np.ones(width, dtype=np.float32)
            if config.weighting == "naive_bayes":
                scale = log_count_ratios(bags, chosen, width, config.smoothing)
                values = values * scale[bags.columns]
            weights, bias, done = _linear(config, bags, values, width, chosen, seed, text_weights)
            converged &= done
            with torch.no_grad():
                model.weight[:, column] = torch.from_numpy(weights * scale)
                model.bias[column] = bias
        return model.eval(), converged

    def anatomy(self) -> Anatomy:
        """It has neither attention nor layers: only its logits can be captured."""
        return Anatomy(embeddings={}, stacks=(), attentions=(), readout="forward")

    def bags(self, words: TokenSequences) -> Bags:
        """The known n-grams of texts, given by the numbers of their words."""
        found, documents = ngrams_of(words, self.base, self.config.max_ngram)
        table = self.ngrams.cpu().numpy()
        # Looking up each n-gram once, in order, is several times faster than looking all of them up.
        once, inverse = distinct(found)
        at = np.minimum(np.searchsorted(table, once), len(table) - 1)
        columns = np.where(table[at] == once, at, -1)[inverse]
        known = columns >= 0
        return bags_of(documents[known], columns[known], len(words), len(table))

    def values(self, bags: Bags) -> NDArray[np.float32]:
        """What each n-gram of a text counts, before its weight."""
        match self.config.weighting:
            case "naive_bayes":
                return np.ones_like(bags.counts)
            case "tfidf":
                scaled = bags.counts * self.idf.cpu().numpy()[bags.columns]
                norms = np.sqrt(np.bincount(bags.rows(), scaled**2, minlength=len(bags)))
                return (scaled / norms[bags.rows()]).astype(np.float32)
            case _:
                return bags.counts

    def margins(self, bags: Bags) -> Float[Tensor, "texts columns"]:
        """The evidence for each class, or for the second of two."""
        columns, offsets, values = (
            torch.from_numpy(array).to(self.weight.device)
            for array in (bags.columns, bags.offsets[:-1], self.values(bags))
        )
        return (
            F.embedding_bag(columns, self.weight, offsets, mode="sum", per_sample_weights=values) + self.bias
        )

    def logits(self, bags: Bags) -> Logits:
        """The logits of the classes, calibrated by the temperature."""
        found = self.margins(bags) / self.temperature
        return found if self.classes != 2 else torch.cat((-found / 2, found / 2), dim=1)

    def forward(self, words: TokenSequences) -> Logits:
        """The logits of texts, given by the numbers of their words."""
        return self.logits(self.bags(words))

    def contributions(self, words: TokenSequences, label: int) -> list[dict[int, float]]:
        """For each text, what its n-grams add to the evidence for a class, by n-gram."""
        bags, table = self.bags(words), self.ngrams.cpu().numpy()
        weight = self.weight.detach()[:, 0 if self.classes == 2 else label].cpu().numpy()
        side = -1.0 if self.classes == 2 and label == 0 else 1.0
        added = side * self.values(bags) * weight[bags.columns]
        parts = zip(bags.offsets[:-1].tolist(), bags.offsets[1:].tolist(), strict=True)
        return [
            dict(zip(table[bags.columns[a:b]].tolist(), added[a:b].tolist(), strict=True)) for a, b in parts
        ]


def log_count_ratios(
    bags: Bags, chosen: NDArray[np.bool_], width: int, smoothing: float
) -> NDArray[np.float32]:
    """How much likelier each n-gram is in the chosen texts than in the others, as a logarithm."""
    mine = chosen[bags.rows()]
    counts = (np.bincount(bags.columns[part], minlength=width) + smoothing for part in (mine, ~mine))
    inside, outside = (count / count.sum() for count in counts)
    return np.log(inside / outside).astype(np.float32)


def calibrated_temperature(logits: Float[Tensor, "texts classes"], classes: Numbers) -> float:
    """The temperature that makes held-out labels most likely (Guo et al. 2017).

    As in Platt 1999, each class counts as having one more text and one with a wrong label: separable texts
    would otherwise make every probability 1.
    """
    logits, chosen = logits.double(), torch.from_numpy(classes)
    wrong = 1 / (chosen.bincount(minlength=logits.shape[1])[chosen, None] + 2).double()
    own = logits.gather(1, chosen[:, None])
    others = (logits.sum(-1, keepdim=True) - own) / (logits.shape[1] - 1)
    labelled = (1 - wrong) * own + wrong * others
    low, high = log(1e-3), log(1e3)
    for _ in range(50):
        middle = (low + high) / 2
        expected = ((logits / np.exp(middle)).softmax(-1) * logits).sum(-1, keepdim=True)
        # The likelihood rises with the temperature where the model is too sure of itself.
        low, high = (middle, high) if float((expected - labelled).sum()) > 0 else (low, middle)
    return float(np.exp((low + high) / 2))


def _linear(
    config: BagConfig,
    bags: Bags,
    values: NDArray[np.float32],
    width: int,
    chosen: NDArray[np.bool_],
    seed: int,
    text_weights: NDArray[np.float32] | None,
) -> tuple[NDArray[np.float64], float, bool]:
    """Weights and bias of a linear classifier of the chosen texts, and whether the solver converged."""
    import warnings

    try:
        from scipy.sparse import csr_matrix
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import LinearSVC
    except ImportError:
        raise ModelError(SKLEARN) from None
    matrix = csr_matrix((values, bags.columns, bags.offsets), shape=(len(bags), width))
    # The dual problem has a variable for each text: there are far more n-grams than texts.
    options: dict[str, Any] = {"C": config.C, "dual": True, "random_state": seed, "max_iter": MAX_ITERATIONS}
    if config.classifier == "svm":
        solver = LinearSVC(**options)
    else:
        solver = LogisticRegression(solver="liblinear", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.fit(matrix, chosen, sample_weight=text_weights)
    bias = float(np.ravel(solver.intercept_)[0])
    return solver.coef_[0], bias, int(np.max(solver.n_iter_)) < MAX_ITERATIONS
