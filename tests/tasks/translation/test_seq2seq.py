"""A recurrent translator is trained, resumed, decoded, evaluated, aligned and exported like any other."""

from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.interop.huggingface import export_model
from clearhead.layers.layout import Padded
from clearhead.models import Seq2SeqConfig, TranslatorConfig
from clearhead.tasks.export import export_int8
from clearhead.tasks.run import resume, train
from clearhead.tasks.translation.alignment import best_aligners, capture_pairs
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import Sampling
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.sizing import fit

from ..conftest import finish, interrupted_at, metrics

MODEL = {"kind": "seq2seq", "width": 32, "dropout": 0.0, "max_length": 16}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, number_recipe):
    """Makes a recipe for a model, with changes."""
    values = read_toml(number_recipe(tmp_path_factory.mktemp("recipe"), steps=150))

    def make(*changes: str, **model: object) -> TranslationRecipe:
        own = {**values, "model": {**MODEL, **model}}
        return parse_settings(TranslationRecipe, apply_overrides(own, changes))

    return make


@pytest.fixture(scope="module")
def trained(recipe, tmp_path_factory) -> Path:
    """The folder of a model with attention."""
    out = tmp_path_factory.mktemp("trained") / "model"
    finish(train(recipe(), out))
    return out


@pytest.fixture
def model(trained) -> TranslationModel:
    found = clearhead.load(trained)
    assert isinstance(found, TranslationModel)
    return found


def test_it_translates_unseen_sentences(trained, model):
    pairs = [line.split("\t") for line in (trained / "test.tsv").read_text().splitlines()]
    translations = model.translate([source for source, _ in pairs])
    assert sum(str(found) == target for found, (_, target) in zip(translations, pairs, strict=True)) > 30
    assert (
        "bidirectional gru of width 32, 1 + 1 layers, additive attention"
        in (trained / "README.md").read_text()
    )


def test_greedy_beam_nbest_and_sampling_agree_with_the_full_pass(model):
    text = "three one four"
    assert str(model.translate(text, beam=1)) == str(model.translate(text, beam=5)) == "3 1 4"
    best = model.translate(text, beam=5, nbest=3)
    assert len(best.nbest) == 3
    assert str(best.nbest[0]) == "3 1 4"
    assert str(model.translate(text, sampling=Sampling(temperature=0.01))) == "3 1 4"
    for one in best.nbest:
        explained = model.explain(text, target=one.text)
        assert explained.sum_log_prob == pytest.approx(one.sum_log_prob, abs=1e-4)


def test_a_batch_of_texts_is_translated_as_each_text_alone(model):
    texts = ["nine", "one two three four five", "seven eight"]
    assert [str(one) for one in model.translate(texts)] == [str(model.translate(text)) for text in texts]


def test_it_is_evaluated_like_any_translator(trained, model):
    found = model.evaluate(trained)
    assert found.record["sentences"] == 40
    assert found.record["scores"][0]["value"] > 80


def test_its_attention_aligns_words(model):
    pairs = [(["three", "one", "four"], ["3", "1", "4"]), (["nine", "zero"], ["9", "0"])]
    captured = list(capture_pairs(model, pairs))
    best = best_aligners(captured)[0]
    assert [one.links(best) for one in captured] == [{(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 1)}]


def test_without_attention_there_is_nothing_to_align_words_by(recipe, tmp_path):
    finish(train(recipe("training.steps=2", attend="none"), tmp_path / "model"))
    with pytest.raises(ModelError, match="does not attend to its source, so there is nothing to align"):
        list(capture_pairs(clearhead.load(tmp_path / "model"), [(["one"], ["1"])]))


@pytest.mark.parametrize(
    "settings",
    [
        {"attend": "before", "dropout": 0.2},
        {"attend": "after", "input_feeding": True, "cell": "lstm", "layers": 2, "dropout": 0.2},
    ],
)
def test_an_interrupted_and_resumed_run_ends_with_the_same_weights(settings, recipe, tmp_path):
    short = ["training.steps=16", "training.save_every=5", "training.regulariser={kind='rdrop'}"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    finish(train(recipe(*short, **settings), whole))
    interrupted_at({7}, train(recipe(*short, **settings), stopped))
    finish(resume(stopped))
    assert (whole / WEIGHTS).read_bytes() == (stopped / WEIGHTS).read_bytes()
    assert metrics(whole) == metrics(stopped)


def test_the_int8_copy_translates_the_same(trained, model, tmp_path):
    before, after = export_int8(trained, tmp_path / "int8")
    assert after < before
    texts = ["three one four", "nine zero two"]
    smaller = clearhead.load(tmp_path / "int8")
    assert [str(one) for one in smaller.translate(texts)] == [str(one) for one in model.translate(texts)]


def test_huggingface_has_no_architecture_for_it(trained, tmp_path):
    with pytest.raises(ModelError, match="Hugging Face has no architecture for a seq2seq"):
        export_model(trained, tmp_path / "out")


def test_a_recurrent_model_learns_from_a_transformer_and_starts_from_another(
    recipe, trained, number_model, tmp_path
):
    teacher = f'training.distillation={{teacher="{number_model}", weight=0.5}}'
    finish(train(recipe("training.steps=4", teacher), tmp_path / "taught"))
    finish(train(recipe("training.steps=4", f"training.init_from={trained}"), tmp_path / "started"))
    with pytest.raises(ModelError, match="holds a translator, but this recipe trains a seq2seq"):
        list(train(recipe("training.steps=4", f"training.init_from={number_model}"), tmp_path / "wrong"))


def test_batches_are_padded_even_on_a_gpu(recipe):
    assert recipe().resolved(on_gpu=True).batches.kind == "padded"
    with pytest.raises(SettingsError, match="recurrent models need a row for each sentence; use 'padded'"):
        recipe("batches.kind=packed")


def test_recurrent_models_are_not_sharded(recipe):
    with pytest.raises(SettingsError, match="recurrent models cannot be sharded; use 'data_parallel'"):
        recipe("training.parallel=fsdp")


def test_the_kind_of_the_model_selects_its_settings(recipe):
    assert isinstance(recipe().model, Seq2SeqConfig)
    data = recipe().model_dump(mode="json", exclude_none=True)["data"]
    assert isinstance(parse_settings(TranslationRecipe, {"data": data}).model, TranslatorConfig)
    with pytest.raises(SettingsError) as caught:
        parse_settings(TranslationRecipe, {"data": data, "model": {"kind": "seq2seq", "ffn_width": 3}})
    assert caught.value.problems == ("model.ffn_width: unknown setting (did you mean width?)",)
    with pytest.raises(SettingsError) as caught:
        parse_settings(TranslationRecipe, {"data": data, "model": {"kind": "seq2seq", "heads": 3}})
    assert caught.value.problems == ("model.heads: unknown setting (did you mean model.attention.heads?)",)
    with pytest.raises(SettingsError) as caught:
        parse_settings(TranslationRecipe, {"data": data, "model": {"kind": "gpt"}})
    assert caught.value.problems == ("model: 'gpt' is not one of translator, seq2seq",)
    with pytest.raises(SettingsError) as caught:
        recipe(reverse=True)
    assert caught.value.problems == (
        "model: reverse has no effect on a bidirectional encoder; set bidirectional to false",
    )


def test_a_recipe_sized_to_pairs_takes_a_recurrent_model(tmp_path, numbers):
    pairs = tmp_path / "numbers.en-de.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in numbers(60)))
    fitted = fit([str(pairs)], None, ["model.kind=seq2seq", "model.preset=luong", "model.width=64"])
    assert fitted.recipe.model.summary == "lstm of width 64, 4 + 4 layers, general attention"
    assert "model: lstm of width 64, 4 + 4 layers, general attention, dropout 0.2" in fitted.choices()


def test_a_recurrent_model_is_sized_to_the_pairs(tmp_path, numbers):
    pairs = tmp_path / "numbers.en-de.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in numbers(60)))
    model = fit([str(pairs)], None, ["model.kind=seq2seq"]).recipe.model
    assert (model.kind, model.width) == ("seq2seq", 256)


@pytest.mark.gpu
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("attend", ["before", "after", "none"])
def test_a_gpu_computes_what_a_cpu_computes(attend, cell, monkeypatch):
    from clearhead.models import Seq2Seq

    # cuDNN's recurrences round to TF32 by default.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig.model_validate({**MODEL, "cell": cell, "attend": attend, "layers": 2}), 20)
    lengths = torch.tensor([5, 2, 4])
    source, target = torch.randint(4, 20, (2, 3, 5))
    expected = torch.autograd.grad(model(source, Padded(lengths), target).sum(), list(model.parameters()))
    model = model.cuda()
    for training in (True, False):
        logits = model.train(training)(source.cuda(), Padded(lengths.cuda()), target.cuda())
        found = torch.autograd.grad(logits.sum(), list(model.parameters()))
        for one, other in zip(expected, found, strict=True):
            torch.testing.assert_close(one, other.cpu(), atol=1e-3, rtol=1e-3)
