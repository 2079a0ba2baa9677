"""A translator with any of the six scores learns to copy and reverse unseen lines."""

from itertools import islice

import pytest
import torch

from clearhead.data.batch import PairBatch
from clearhead.decoding import Constraints, greedy_search
from clearhead.layers.layout import Padded
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.text.tokenizer import BOS, EOS
from clearhead.training import cross_entropy_loss
from clearhead.training.optimizer import AdamConfig, Optimizer

from ..toys import Toy, toy_batches, toy_pairs

VOCABULARY, MAX_LENGTH, SENTENCES, LEARNING_RATE = 12, 5, 64, 1e-2
STEPS: dict[Toy, int] = {"copy": 200, "reverse": 300}
Line = tuple[int, ...]


def make_translator(score: str) -> Translator:
    torch.manual_seed(0)
    settings = {
        "width": 32,
        "ffn_width": 64,
        "attention": {"heads": 4, "score": score},
        "encoder_layers": 1,
        "decoder_layers": 1,
        "norm_position": "pre",
        "dropout": 0.0,
        "max_length": MAX_LENGTH + 2,
    }
    return Translator(TranslatorConfig.model_validate(settings), VOCABULARY)


def train(model: Translator, task: Toy) -> set[Line]:
    """Trains the model; returns the lines it has seen."""
    seen: set[Line] = set()
    optimizer, steps = Optimizer(model, AdamConfig()), STEPS[task]
    batches = toy_batches(task, SENTENCES, seed=0, vocabulary=VOCABULARY, max_length=MAX_LENGTH)
    for number, batch in enumerate(islice(batches, steps)):
        states = model.states(batch.source, Padded(batch.source_lengths), batch.inputs)
        loss = cross_entropy_loss(states, model.readout_weight, batch.labels)
        optimizer.zero_grad()
        (loss / batch.tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(LEARNING_RATE * min((number + 1) / 50, 2 * (steps - number) / steps, 1))
        lines = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
        seen.update(tuple(line[: length - 1]) for line, length in lines)
    return seen


def translate(model: Translator, sources: list[list[int]]) -> list[list[int]]:
    batch = PairBatch.of(sources, sources)
    state = model.eval().start(batch.source, batch.source_lengths)
    constraints = Constraints(torch.full((len(sources),), BOS), EOS, MAX_LENGTH + 1)
    found = greedy_search(model.step, state, constraints)
    return [hypothesis.tokens for hypothesis in found]


@pytest.mark.parametrize("score", ["dot", "scaled", "general", "additive", "cosine", "location"])
@pytest.mark.parametrize("task", STEPS)
def test_every_score_learns(task: Toy, score: str):
    model = make_translator(score)
    seen = train(model, task)
    pairs = toy_pairs(task, 1000, seed=1, vocabulary=VOCABULARY, max_length=MAX_LENGTH)
    unseen = [pair for pair in pairs if tuple(pair[0]) not in seen]
    assert len(unseen) > 200
    with torch.no_grad():
        translations = translate(model, [source for source, _ in unseen])
    correct = sum(found == target for found, (_, target) in zip(translations, unseen, strict=True))
    assert correct / len(unseen) > 0.95
