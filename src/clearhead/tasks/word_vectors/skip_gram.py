"""Skip-gram with negative sampling (Mikolov et al. 2013): its loss, and its updates as matrix products.

Consecutive words share their negative samples (Ji et al. 2016), so the scores of a block are one product of
its words with their contexts and samples, and the gradients are two more.
"""

import math
import time

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.data.batching.windows import WindowBatch, WindowsConfig
from clearhead.errors import TrainingError
from clearhead.models.word_vectors import WordVectors
from clearhead.training import Ranks, Report, Trainer, TrainingConfig
from clearhead.training.schedule import learning_rate_at
from clearhead.training.trainer import DeviceNumbers

MEASURED = 2
"""Blocks of a step whose loss is reported; measuring all of them would slow training down."""
MAX_STEP = 1.0
"""Limit of learning rate times terms, for one word in one update. A word that occurs a hundred times would
otherwise take a hundred steps from the same point, and overshoot."""

Weights = Float[Tensor, "blocks centres others"]


def skip_gram_loss(model: WordVectors, batch: WindowBatch, negatives: int) -> Tensor:
    """-log σ(x·y) of each word x with its contexts y, and -log σ(-x·y) with its samples; summed."""
    words, contexts = _tables(model)
    scores = words[batch.centres] @ contexts[_others(batch)].mT
    weights, true = _pair_weights(batch, negatives), batch.surroundings.shape[1]
    # -log σ(s) is softplus(s) - s.
    return (weights * F.softplus(scores)).sum() - (weights * scores)[..., :true].sum()


class SkipGramReport(Report):
    """The measurements of a step that has no whole gradient, only one for each word."""

    @property
    def gradient(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


class SkipGramTrainer(Trainer[WordVectors, WindowBatch]):
    """Changes only the rows that occur in a batch, by plain gradient descent, without autograd."""

    def __init__(self, model: WordVectors, config: TrainingConfig, windows: WindowsConfig, ranks: Ranks):
        def loss(model: WordVectors, batch: WindowBatch) -> Tensor:
            return skip_gram_loss(model, batch, windows.negatives)

        super().__init__(model, loss, config, ranks)
        self.windows, self.loss = windows, loss
        self._terms = torch.zeros(model.embedding.num_embeddings, device=self.device)

    @torch.no_grad()
    def _take_step(self, group: list[WindowBatch], started: float) -> Report:
        (batch,) = group
        learning_rate = learning_rate_at(self.config.schedule, self.step + 1, self.config.steps)
        self.step += 1
        moved = batch.to(self.device, non_blocking=True)
        part = moved.map(lambda tensor: tensor[:MEASURED])
        loss = self.loss(self.model, part) / (part.left.sum() + part.right.sum()).clamp(min=1)
        for update in moved.parts(max(1, self.windows.update // self.windows.block)):
            self.update(update, learning_rate)
        counts = (0.0, batch.tokens, batch.padding)
        measured = DeviceNumbers(torch.stack([loss, *(loss.new_full((), count) for count in counts)]))
        # On a GPU a step lasts until the one before it is done.
        self.synchronize(max(0, self._lag - 1))
        return SkipGramReport(self.step, learning_rate, time.perf_counter() - started, measured)

    def update(self, batch: WindowBatch, learning_rate: float) -> None:
        """One step down the gradient, for all words of a batch at once."""
        words, contexts = _tables(self.model)
        centres, others = batch.centres.flatten(), _others(batch)
        x = words.index_select(0, centres).view(*batch.left.shape, -1)
        y = contexts.index_select(0, others.flatten()).view(*others.shape, -1)
        weights, true = _pair_weights(batch, self.windows.negatives), batch.surroundings.shape[1]
        downhill = torch.bmm(x, y.mT).sigmoid_().mul_(weights).neg_()
        downhill[..., :true] += weights[..., :true]
        for table, rows, steps, terms in (
            (words, centres, torch.bmm(downhill, y), weights.sum(2)),
            (contexts, others.flatten(), torch.bmm(downhill.mT, x), weights.sum(1)),
        ):
            rates = self._rates(rows, terms.flatten(), learning_rate)
            table.index_add_(0, rows, steps.flatten(0, 1).mul_(rates[:, None]))

    def _rates(
        self, rows: Int[Tensor, " rows"], terms: Float[Tensor, " rows"], learning_rate: float
    ) -> Float[Tensor, " rows"]:
        """The learning rate of each row: lower for words with very many terms in this update."""
        totals = self._terms.index_add_(0, rows, terms).index_select(0, rows)
        self._terms.index_fill_(0, rows, 0.0)
        return (MAX_STEP / totals).clamp_(max=learning_rate)

    def _check(self, report: Report) -> None:
        if not math.isfinite(report.loss):
            raise TrainingError(
                f"step {report.step}: the run diverged (loss {report.loss:g}); start again in a new folder "
                "with a lower training.schedule.learning_rate"
            )


def _tables(model: WordVectors) -> tuple[Tensor, Tensor]:
    """The vectors of words, and those of contexts."""
    assert model.contexts is not None
    return model.embedding.weight, model.contexts.weight


def _others(batch: WindowBatch) -> Int[Tensor, "blocks others"]:
    """The words that the centres of each block are scored with: those around them, then the samples."""
    return torch.cat([batch.surroundings, batch.negatives], 1)


def _pair_weights(batch: WindowBatch, negatives: int) -> Weights:
    """How often each centre is paired with each of the others."""
    around, samples = batch.surroundings.shape[1], batch.negatives.shape[1]
    left, right = batch.left.unsqueeze(2), batch.right.unsqueeze(2)
    positions = torch.arange(around, device=left.device, dtype=torch.int8)
    distance = positions - (positions[: batch.block, None] + batch.window)
    weights = torch.empty(*batch.left.shape, around + samples, device=left.device)
    weights[..., :around] = (-left <= distance) & (distance <= right) & (distance != 0)
    weights[..., around:] = (left + right) * (negatives / samples)
    return weights
