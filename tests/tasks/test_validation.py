"""The validator measures what one would measure by hand."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from clearhead.data.batch import PairBatch
from clearhead.data.sources.corpus import Pair
from clearhead.errors import DataError
from clearhead.evaluation.bleu import bleu
from clearhead.layers.layout import Padded
from clearhead.tasks.load import load
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.evaluate import Validator
from clearhead.tasks.translation.task import translation_loss

DIRECTION = Direction("en", "de")


@pytest.fixture(scope="module")
def trained(number_model):
    return load(number_model)


@pytest.fixture(scope="module")
def pairs(number_model) -> list[Pair]:
    lines = (number_model / "validation.tsv").read_text().splitlines()
    return [Pair(*line.split("\t")) for line in lines]


@pytest.fixture
def recipe(number_model):
    from clearhead.config import apply_overrides, parse_settings, read_toml
    from clearhead.tasks.translation.recipe import TranslationRecipe

    saved = read_toml(number_model / "config.toml")
    return lambda *changes: parse_settings(TranslationRecipe, apply_overrides(saved, changes))


def test_the_loss_is_the_cross_entropy_of_all_tokens(trained, pairs, recipe):
    model, tokenizer = trained.model, trained.tokenizer
    total, tokens = 0.0, 0
    for pair in pairs:
        batch = PairBatch.of([tokenizer.encode(pair.source)], [tokenizer.encode(pair.target)])
        with torch.no_grad():
            logits = model(batch.source, Padded(batch.source_lengths), batch.inputs)
        total += F.cross_entropy(logits[0], batch.labels[0], reduction="sum").item()
        tokens += batch.labels.numel()
    for budget in (20, 4096):
        validator = Validator({DIRECTION: pairs}, tokenizer, recipe(f"batches.tokens={budget}"))
        assert validator.loss(model, nullcontext()) == pytest.approx(total / tokens, rel=1e-5)


def test_bleu_is_that_of_translations_spread_over_all_sentences(trained, pairs, recipe):
    validator = Validator(
        {DIRECTION: pairs}, trained.tokenizer, recipe("validation={sentences = 7, beam = 2}")
    )
    sources, references = ([pair[side] for pair in pairs[:28:4]] for side in (0, 1))
    translations = [str(one) for one in trained.translate(sources, beam=2)]
    assert validator.bleu(trained.model) == {"bleu": bleu(translations, references, "de").value}


def test_without_sentences_there_is_no_bleu(trained, pairs, recipe):
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe("validation.sentences=0"))
    assert validator.bleu(trained.model) == {}
    assert validator.loss(trained.model, nullcontext()) > 0


def test_measuring_changes_neither_weights_nor_chance(trained, pairs, recipe):
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe())
    weights = [parameter.clone() for parameter in trained.model.parameters()]
    chance = torch.get_rng_state()
    first = validator.loss(trained.model, nullcontext()), validator.bleu(trained.model)
    assert (validator.loss(trained.model, nullcontext()), validator.bleu(trained.model)) == first
    assert torch.equal(torch.get_rng_state(), chance)
    assert all(map(torch.equal, weights, trained.model.parameters()))


def test_pairs_that_the_model_cannot_hold_are_left_out(trained, pairs, recipe):
    long = Pair("one " * 30, "1 " * 30)
    usual, more = (
        Validator({DIRECTION: some}, trained.tokenizer, recipe()).loss(trained.model, nullcontext())
        for some in (pairs, [long, *pairs])
    )
    assert usual == more
    with pytest.raises(
        DataError, match="none of 1 pairs has from 1 to 15 tokens; give shorter ones or raise"
    ):
        Validator({DIRECTION: [long]}, trained.tokenizer, recipe())


def test_smoothing_makes_the_loss_of_a_sure_model_larger(trained, pairs):
    ids = [[trained.tokenizer.encode(pair[side]) for pair in pairs] for side in (0, 1)]
    batch = PairBatch.of(*ids)
    with torch.no_grad():
        plain = translation_loss(trained.model, batch, label_smoothing=0.0)
        smoothed = translation_loss(trained.model, batch, label_smoothing=0.1)
    assert smoothed > plain
