"""Translating with several teachers at once, for a student to learn from."""

import math

import pytest
import torch
from distil import Ensemble, load_ensemble

from clearhead.layers.layout import Padded
from clearhead.models.translator import Translator, TranslatorConfig


@pytest.fixture
def teachers() -> list[Translator]:
    config = TranslatorConfig(
        width=16, ffn_width=32, encoder_layers=1, decoder_layers=1, attention={"heads": 2}, max_length=16
    )
    return [Translator(config, 20).eval() for _ in range(2)]


def test_an_ensemble_has_the_mean_of_all_probabilities(teachers):
    source, lengths = torch.randint(4, 20, (3, 5)), torch.tensor([5, 3, 4])
    target = torch.randint(4, 20, (3, 4))
    ensemble = Ensemble(teachers)
    state = ensemble.start(source, lengths)
    with torch.no_grad():
        steps = torch.stack([ensemble.step(tokens, state) for tokens in target.T], 1)
        logits = [teacher(source, Padded(lengths), target) for teacher in teachers]
    mean = sum(one.softmax(-1) for one in logits) / 2
    torch.testing.assert_close(steps, mean.log())
    assert steps.logsumexp(-1).abs().max() < 1e-5


def test_an_ensemble_reorders_the_states_of_all_models(teachers):
    source, lengths = torch.randint(4, 20, (3, 5)), torch.tensor([5, 3, 4])
    ensemble, rows = Ensemble(teachers), torch.tensor([2, 0])
    state = ensemble.start(source, lengths)
    with torch.no_grad():
        ensemble.step(torch.tensor([4, 5, 6]), state)
        state.select(rows)
        after = ensemble.step(torch.tensor([7, 8]), state)
        chosen = ensemble.start(source[rows], lengths[rows])
        ensemble.step(torch.tensor([6, 4]), chosen)
        torch.testing.assert_close(after, ensemble.step(torch.tensor([7, 8]), chosen))


def test_a_model_beside_itself_translates_as_it_does_alone(number_model):
    alone, both = load_ensemble([number_model], "cpu"), load_ensemble([number_model] * 2, "cpu")
    for one, other in zip(
        alone.translate(["one two"], beam=3), both.translate(["one two"], beam=3), strict=True
    ):
        assert one.text == other.text
        assert math.isclose(one.score, other.score, abs_tol=1e-5)
