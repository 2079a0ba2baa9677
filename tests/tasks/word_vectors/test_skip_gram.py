"""The updates of skip-gram, against autograd and against word2vec pair by pair."""

import math

import numpy as np
import pytest
import torch

from clearhead.data.batching.windows import WindowBatch, Windows, WindowsConfig
from clearhead.data.store import TokenSequences
from clearhead.errors import TrainingError
from clearhead.models.word_vectors import WordVectors, WordVectorsConfig
from clearhead.tasks.word_vectors.recipe import WordVectorsTraining
from clearhead.tasks.word_vectors.skip_gram import SkipGramTrainer, skip_gram_loss
from clearhead.training import Ranks
from clearhead.training.schedule import ConstantSchedule

CONFIG = WindowsConfig(window=3, negatives=4, subsample=0, block=5, shared_negatives=6, words=64, update=1000)


def model(words: int = 12, width: int = 8) -> WordVectors:
    torch.manual_seed(0)
    made = WordVectors(WordVectorsConfig(width=width), words)
    assert made.contexts is not None
    torch.nn.init.normal_(made.embedding.weight)
    torch.nn.init.normal_(made.contexts.weight)
    return made


def batches(config: WindowsConfig = CONFIG, words: int = 12) -> list[WindowBatch]:
    rng = np.random.default_rng(0)
    text = TokenSequences.of([rng.integers(0, words, size).tolist() for size in (7, 1, 20, 31)])
    return list(Windows(text, np.ones(words, dtype=np.int64), config, seed=3).epoch(0))


def trainer(of: WordVectors, config: WindowsConfig = CONFIG, learning_rate: float = 0.001) -> SkipGramTrainer:
    schedule = ConstantSchedule(learning_rate=learning_rate)
    return SkipGramTrainer(
        of, WordVectorsTraining(steps=100, schedule=schedule, device="cpu"), config, Ranks()
    )


def test_the_loss_is_that_of_every_pair_and_its_negatives():
    """-log σ(x·y) for each pair, and for each the mean of -log σ(-x·n) over the block's samples, 4 times."""
    made, [batch] = model(), batches()
    assert made.contexts is not None
    words, contexts = made.embedding.weight.tolist(), made.contexts.weight.tolist()

    def minus_log_sigmoid(x: list[float], y: list[float], label: int) -> float:
        return math.log1p(math.exp(-label * sum(a * b for a, b in zip(x, y, strict=True))))

    expected = 0.0
    for block in range(len(batch)):
        around, negatives = batch.surroundings[block].tolist(), batch.negatives[block].tolist()
        for index in range(batch.block):
            left, right = int(batch.left[block, index]), int(batch.right[block, index])
            at = index + batch.window
            for other in [*range(at - left, at), *range(at + 1, at + right + 1)]:
                expected += minus_log_sigmoid(words[around[at]], contexts[around[other]], 1)
                sampled = (minus_log_sigmoid(words[around[at]], contexts[one], -1) for one in negatives)
                expected += 4 * sum(sampled) / len(negatives)
    assert float(skip_gram_loss(made, batch, 4)) == pytest.approx(expected, rel=1e-5)


def test_an_update_is_a_step_down_the_gradient_that_autograd_finds():
    made, [batch] = model(), batches()
    before = {name: weight.clone() for name, weight in made.state_dict().items()}
    for parameter in made.parameters():
        parameter.requires_grad_(True)
    skip_gram_loss(made, batch, 4).backward()
    expected = {
        name: before[name] - 0.001 * parameter.grad
        for name, parameter in made.named_parameters()
        if parameter.grad is not None
    }
    with torch.no_grad():
        trainer(made).update(batch, 0.001)
    assert expected.keys() == before.keys()
    for name, weight in made.state_dict().items():
        torch.testing.assert_close(weight, expected[name], atol=1e-6, rtol=1e-5)


def test_a_step_is_its_updates_one_after_the_other():
    config = CONFIG.model_copy(update={"update": 10})
    one, other, [batch] = model(), model(), batches(config)
    for _ in trainer(one, config).steps([batch]):
        pass
    with torch.no_grad():
        steps = trainer(other, config)
        for part in batch.parts(2):
            steps.update(part, 0.001)
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name])


def test_words_that_fill_a_batch_do_not_overshoot():
    """Two words a thousand times each: summed without a limit, their updates would explode."""
    config = WindowsConfig(subsample=0, words=2000, update=2000)
    made = WordVectors(WordVectorsConfig(width=10), 2)
    text = TokenSequences.of([[0, 1] * 1000])
    losses = []
    for number in range(50):
        steps = Windows(text, np.array([1000, 1000]), config, seed=number).epoch(0)
        losses += [report.loss for report in trainer(made, config, learning_rate=0.5).steps(steps)]
    assert losses[-1] <= losses[0]
    assert float(made.embedding.weight.abs().max()) < 20


def test_a_run_that_diverges_stops_with_the_way_out():
    made = model()
    made.embedding.weight.data.fill_(math.nan)
    with pytest.raises(TrainingError, match=r"step 1: the run diverged \(loss nan\); .* training.schedule"):
        list(trainer(made).steps(batches()))
