"""Validation and evaluation compute the expected scores, on the pairs that the model can take."""

import weakref
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F

from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.data.batch import PairBatch
from clearhead.data.sources.corpus import Pair
from clearhead.errors import DataError
from clearhead.evaluation.bleu import bleu, scores
from clearhead.layers.layout import Padded
from clearhead.models.engine import Engine
from clearhead.tasks.load import load
from clearhead.tasks.run import train
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.evaluate import (
    Validator,
    held_out_pairs,
    scored,
)
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import SearchConfig, TranslateOptions
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import translation_loss

PAIRS = [Pair(f"word {number}", f"das Wort {number} steht hier") for number in range(12)]
DIRECTION = Direction("en", "de")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="module")
def trained(number_model):
    return load(number_model)


@pytest.fixture(scope="module")
def pairs(number_model) -> list[Pair]:
    lines = (number_model / "validation.tsv").read_text().splitlines()
    return [Pair(*line.split("\t")) for line in lines]


@pytest.fixture
def recipe(number_model):
    saved = read_toml(number_model / "config.toml")
    return lambda *changes: parse_settings(TranslationRecipe, apply_overrides(saved, changes))


def loss_of(validator: Validator, model) -> float:
    return validator.loss(model, nullcontext(), translation_loss)


@dataclass(frozen=True)
class Chosen:
    """What decodes, by a weak reference, and its precision."""

    engine: weakref.ref
    precision: str
    is_model: bool


@pytest.fixture
def engines(monkeypatch) -> list[Chosen]:
    """What decodes, as it is chosen."""
    chosen, current = [], Engine.current

    def recorded(self):
        found = current(self)
        chosen.append(Chosen(weakref.ref(found), self.precision, found is self.model))
        return found

    monkeypatch.setattr(Engine, "current", recorded)
    return chosen


# Validation


def test_the_validation_loss_is_the_cross_entropy_of_all_tokens(trained, pairs, recipe):
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
        assert loss_of(validator, model) == pytest.approx(total / tokens, rel=1e-5)


def test_bleu_is_computed_on_an_even_sample_of_the_pairs(trained, pairs, recipe):
    validator = Validator(
        {DIRECTION: pairs}, trained.tokenizer, recipe("validation={sentences = 7, beam = 2}")
    )
    sources, references = ([pair[side] for pair in pairs[:28:4]] for side in (0, 1))
    translations = [str(one) for one in trained.translate(sources, beam=2)]
    assert validator.bleu(trained.model) == {"bleu": bleu(translations, references, "de").value}


def test_a_measurement_is_the_loss_and_bleu(trained, pairs, recipe):
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe())
    measured = validator.measure(trained.model, nullcontext(), translation_loss)
    assert measured == {"loss": loss_of(validator, trained.model), **validator.bleu(trained.model)}


@contextmanager
def autocast_of(device, dtype):
    """What torch.autocast does; without a GPU, that of CUDA stays off."""
    before = torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_dtype(device, before)


@pytest.mark.parametrize(
    ("device", "dtype", "precision"),
    [
        ("cuda", torch.bfloat16, "bf16"),
        ("cuda", torch.float16, "fp32"),
        ("cpu", torch.bfloat16, "fp32"),
        (None, None, "fp32"),
    ],
)
def test_a_run_in_bf16_on_a_gpu_is_measured_in_bf16(
    trained, pairs, recipe, engines, monkeypatch, device, dtype, precision
):
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe())
    monkeypatch.setattr(validator, "loss", lambda *_: 1.0)
    autocast = autocast_of(device, dtype) if device else nullcontext()
    measured = validator.measure(trained.model, autocast, translation_loss)
    assert measured == {"loss": 1.0, **validator.bleu(trained.model, precision)}
    assert {one.precision for one in engines} == {precision}


@pytest.mark.parametrize("device", DEVICES)
def test_bleu_in_bf16_is_that_of_a_translator_in_bf16(trained, pairs, recipe, device):
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe("validation.beam=2"))
    model = deepcopy(trained.model).to(device)
    translator = TranslationModel(model, trained.tokenizer, [DIRECTION], SearchConfig(beam=2))
    translator.precision = "bf16"
    sources, references = zip(*(pair for pair, _ in validator.sampled[DIRECTION]), strict=True)
    translations = [str(one) for one in translator.translate(list(sources))]
    expected = bleu(translations, references, "de").value
    assert validator.bleu(model, "bf16") == {"bleu": expected}


def test_with_zero_sentences_there_is_no_bleu(trained, pairs, recipe):
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe("validation.sentences=0"))
    assert validator.bleu(trained.model) == {}
    assert loss_of(validator, trained.model) > 0


def test_validation_changes_neither_weights_nor_the_random_generator(trained, pairs, recipe):
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe())
    weights = [parameter.clone() for parameter in trained.model.parameters()]
    state = torch.get_rng_state()
    first = loss_of(validator, trained.model), validator.bleu(trained.model)
    assert (loss_of(validator, trained.model), validator.bleu(trained.model)) == first
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, weights, trained.model.parameters()))


@pytest.mark.accel
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("device", DEVICES)
def test_validation_decodes_with_a_copy_that_does_not_outlive_it(
    trained, pairs, recipe, engines, without_garbage_collection, precision, device
):
    validator, model = Validator({DIRECTION: pairs}, trained.tokenizer, recipe()), deepcopy(trained.model)
    validator.bleu(model.to(device), precision)
    assert engines
    assert all(one.engine() is None and not one.is_model for one in engines)


@pytest.mark.gpu
def test_validation_frees_its_memory(trained, pairs, recipe, without_garbage_collection):
    validator, model = Validator({DIRECTION: pairs}, trained.tokenizer, recipe()), deepcopy(trained.model)
    model.to("cuda")
    used = []
    for _ in range(4):
        validator.bleu(model, "bf16")
        used.append(torch.cuda.memory_allocated())
    assert used[1:] == used[:1] * 3


def test_validation_finds_what_the_model_itself_finds(trained, pairs, recipe, monkeypatch):
    model = deepcopy(trained.model)
    validator = Validator({DIRECTION: pairs}, trained.tokenizer, recipe("validation.beam=2"))
    found = []
    for _ in range(3):
        found.append(validator.bleu(model))
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "current", lambda engine: engine.model)
            assert validator.bleu(model) == found[-1]
        # Weights change between validations, in place, as an optimizer changes them.
        with torch.no_grad():
            for parameter in model.decoder.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
    assert found[0] != found[1] != found[2]


def test_training_is_the_same_with_and_without_translations_in_between(number_recipe, tmp_path):
    ends = {}
    for sentences in (0, 20):
        folder = tmp_path / str(sentences)
        folder.mkdir()
        changes = [f"validation.sentences={sentences}", "training.validate_every=2", "training.ema_decay=0.9"]
        saved = apply_overrides(read_toml(number_recipe(folder, steps=6)), changes)
        for _ in train(parse_settings(TranslationRecipe, saved), folder / "run"):
            pass
        ends[sentences] = load(folder / "run").model.state_dict()
        measured = (folder / "run" / "metrics.jsonl").read_text()
        assert ("bleu" in measured) is bool(sentences)
    assert all(torch.equal(tensor, ends[20][name]) for name, tensor in ends[0].items())


def test_pairs_that_are_too_long_for_the_model_are_left_out(trained, pairs, recipe):
    long = Pair("one " * 30, "1 " * 30)
    usual, more = (
        loss_of(Validator({DIRECTION: some}, trained.tokenizer, recipe()), trained.model)
        for some in (pairs, [long, *pairs])
    )
    assert usual == more
    with pytest.raises(DataError, match="none of 1 pair has 1 to 15 tokens; use shorter pairs, or raise"):
        Validator({DIRECTION: [long]}, trained.tokenizer, recipe())


def test_label_smoothing_raises_the_loss_of_a_confident_model(trained, pairs):
    batch = PairBatch.of(*([trained.tokenizer.encode(pair[side]) for pair in pairs] for side in (0, 1)))
    with torch.no_grad():
        plain, smoothed = (translation_loss(trained.model, batch, smoothing) for smoothing in (0.0, 0.1))
    assert smoothed > plain


# Evaluation


def test_the_held_out_test_pairs_are_the_default(tmp_path):
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "test.tsv").write_text("a\tb\n")
    assert held_out_pairs(None, tmp_path, DIRECTION).pairs == [Pair("a", "b")]
    for content in (None, ""):
        (tmp_path / "test.tsv").unlink() if content is None else (tmp_path / "test.tsv").write_text(content)
        with pytest.raises(
            DataError, match="this folder has no held-out test pairs; name a file with --pair"
        ):
            held_out_pairs(None, tmp_path, DIRECTION)


def test_pairs_are_normalised_as_in_training_and_blank_ones_left_out(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\u00a0 b\tc \nd\t\n\te\nf\tg\n", encoding="utf-8")
    test = held_out_pairs(str(path), tmp_path, DIRECTION)
    assert test.pairs == [Pair("a b", "c"), Pair("f", "g")]
    assert (test.read, test.blank) == (4, 2)
    assert test.kept(["1", "2", "3", "4"]) == ["1", "4"]
    assert test.spread(["1", "4"]) == ["1", "", "", "4"]


def test_a_source_that_is_too_long_has_an_empty_translation(trained):
    fitting = ("one " * trained.max_length).strip()
    sources = [fitting, f"{fitting} two", "three"]
    found = list(trained.translations(sources, "de", options=TranslateOptions(beam=1)))
    assert [one.source for one in found] == sources
    assert [one.too_long for one in found] == [False, True, False]
    assert [bool(one.text) for one in found] == [True, False, True]


def test_the_report_holds_the_scores_of_the_evaluation():
    ours = [pair.target.replace("steht", "liegt") for pair in PAIRS]
    report = scored(PAIRS, ours, "de")
    assert report.sentences == 12
    assert report.scores == scores(ours, [pair.target for pair in PAIRS], "de")
    assert sum(bucket.sentences for bucket in report.by_length) == 12
    assert report.comparisons == []


def test_a_better_system_is_significantly_better():
    ours = [pair.target.replace("steht", "liegt") for pair in PAIRS]
    theirs = [pair.target for pair in PAIRS]
    comparison = scored(PAIRS, ours, "de", theirs).comparisons[0]
    assert comparison.ours.value < comparison.theirs.value
    assert comparison.p_value < 0.05
