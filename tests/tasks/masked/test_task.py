"""Masked models are trained, resumed, loaded, used, explained and evaluated."""

from math import log
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.config import parse_settings
from clearhead.errors import DataError, ModelError, SettingsError, TextError
from clearhead.tasks.load import load_for
from clearhead.tasks.masked.model import MaskedModel
from clearhead.tasks.masked.recipe import MaskedRecipe
from clearhead.tasks.masked.sizing import fit_masked
from clearhead.tasks.run import resume, train

from ..conftest import finish, interrupted_at
from .conftest import ANIMALS, DRINKS, recipe, sentences


@pytest.fixture
def model(trained: Path) -> MaskedModel:
    return clearhead.load(trained)


def test_a_model_learns_which_words_fit(model: MaskedModel):
    found = model.fill("the big [MASK] drinks milk .", top=4)
    assert {one.token.strip("▁") for one in found.masks[0]} == {*ANIMALS}
    first = model.fill("the red cat eats [MASK] .").masks[0][0]
    assert first.token.strip("▁") == "grass"
    assert first.probability > 0.9
    assert str(model.fill("the old cow [MASK] grass .")) == "the old cow eats grass ."


def test_several_masks_and_several_texts_are_filled_in_order(model: MaskedModel):
    texts = ["the big [MASK] [MASK] milk .", "the [MASK] cat eats grass .", "the big cat drinks [MASK] ."]
    found = model.fill(texts, top=2)
    assert [one.text for one in found] == texts
    assert [len(one.masks) for one in found] == [2, 1, 1]
    assert all(len(mask) == 2 for one in found for mask in one.masks)
    for one, text in zip(found, texts, strict=True):
        alone = model.fill(text, top=2)
        assert alone.filled == one.filled
        for mine, other in zip(alone.masks[0], one.masks[0], strict=True):
            assert mine.probability == pytest.approx(other.probability, abs=1e-4)
    assert found[0].filled.split()[3] == "drinks"
    assert found[2].masks[0][0].token.strip("▁") in DRINKS
    assert model.fill([]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no mask at all", r"text 1: has no \[MASK\]; write \[MASK\] where a word is missing"),
        ("", r"text 1: has no \[MASK\]"),
        (" ".join(["[MASK]"] * 2000), "the text has 2002 tokens, but the model takes at most 32; shorten"),
        ("the x[MASK]x[MASK] cat", "text 1: has two masks in one word; put a space between them"),
    ],
)
def test_texts_that_cannot_be_filled_are_refused(model: MaskedModel, text: str, message: str):
    with pytest.raises(TextError, match=message):
        model.fill(text)


def test_wrong_arguments_of_fill_are_refused(model: MaskedModel):
    with pytest.raises(SettingsError, match="top: 0 should be the number of candidates, 1 or more"):
        model.fill("a [MASK]", top=0)
    with pytest.raises(TextError, match="text 2: 3 is of type int; pass a str"):
        model.fill(["a [MASK]", 3])  # pyright: ignore
    assert len(model.fill("the [MASK]", top=10_000).masks[0]) == model.tokenizer.size - 5


def test_vectors_of_similar_sentences_are_closer_and_batches_do_not_matter(model: MaskedModel):
    texts = ["the old cow eats grass .", "the old horse eats grass .", "the red cat drinks milk .", "milk"]
    vectors = model.vectors(texts)
    assert vectors.shape == (4, 32)
    near = torch.cosine_similarity(vectors[:1], vectors[1:])
    assert near[0] > near[1]
    torch.testing.assert_close(vectors[3:], model.vectors("milk"), rtol=1e-4, atol=1e-5)
    assert model.vectors(["cow " * 500]).isfinite().all()
    assert model.vectors([]).shape == (0, 32)


def test_one_pass_is_explained_with_and_without_masks(model: MaskedModel, tmp_path: Path):
    text = "the big [MASK] drinks milk ."
    explanation = model.explain(text)
    assert explanation.difference < 1e-4
    assert explanation.output == model.fill(text).filled
    tokens = explanation.sides["text"]
    at = next(index for index, token in enumerate(tokens) if token.piece == "<mask>")
    predicts = tokens[at] if model.model.config.head.predict_from == "mask" else tokens[at - 1]
    assert predicts.next == model.tokenizer.id(explanation.output.split()[2])
    # Filling leaves out special tokens, which have next to no probability.
    assert predicts.log_prob == pytest.approx(log(model.fill(text).masks[0][0].probability), abs=0.1)
    weights = explanation["encoder.blocks.1.attention.weights"]
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert explanation.save(tmp_path / "x.json").stat().st_size > 500
    assert explanation.save(tmp_path / "x.svg", "lens").stat().st_size > 500
    assert model.explain("the big cat drinks milk .").output == ""


def test_the_explorer_shows_a_masked_model(model: MaskedModel):
    fastapi = pytest.importorskip("fastapi.testclient")
    from clearhead.explorer.app import make_app
    from clearhead.explorer.library import Library

    app = make_app(Library([("mine", model)]))
    with fastapi.TestClient(app, base_url="http://127.0.0.1") as client:
        body = {"model": "mine", "text": "the big [MASK] drinks milk ."}
        found = client.get(f"/api/trace/{client.post('/api/trace', json=body).json()['id']}").json()
        assert found["output"]["text"] == model.fill(body["text"]).filled
        assert found["output"]["tokens"] == []
        assert [one["piece"] for one in found["sides"]["text"]].count("<mask>") == 1
        assert found["difference"] < 1e-4
        too_long = client.post("/api/trace", json={"model": "mine", "text": "[MASK] " * 2000})
        assert too_long.status_code == 400
        assert "the model takes at most" in too_long.json()["error"]


def test_held_out_text_and_other_text_are_evaluated_with_fixed_masks(
    trained: Path, model: MaskedModel, tmp_path: Path
):
    first, second = model.evaluate(trained), model.evaluate(trained)
    assert first.record == second.record
    assert first.record["accuracy"] > first.record["most_frequent"] + 0.1
    other = tmp_path / "other.tsv"
    other.write_text("".join(f"{number}\t{line}\n" for number, line in enumerate(sentences(50, seed=7))))
    with pytest.raises(DataError, match=r"other\.tsv: has columns; name the one .*: --field NUMBER"):
        model.evaluate(trained, text=[str(other)])
    found = model.evaluate(trained, text=[str(other)], field="1")
    assert found.record["documents"] == 50
    assert found.record["accuracy"] == pytest.approx(first.record["accuracy"], abs=0.2)
    assert "masked tokens, 30% of 50 documents" in found.lines[0]


def test_a_hybrid_also_generates_and_a_plain_model_says_what_it_does(trained: Path, model: MaskedModel):
    if model.model.config.head.predict_from == "mask":
        with pytest.raises(ModelError, match="this model fills masks; use clearhead fill"):
            load_for("language", trained)
        return
    language = load_for("language", trained)
    found = language.generate("the old cow eats", tokens=2, temperature=0.0)
    assert found.text.strip() == "grass ."
    assert language.generate("the big cat drinks", tokens=1, temperature=0.0).text.strip() in DRINKS


@pytest.mark.parametrize("causal", [0.0, 0.5])
def test_an_interrupted_run_resumes_to_the_same_bits(causal: float, corpus: Path, tmp_path: Path):
    training = recipe(corpus).training.model_copy(update={"steps": 40})
    settings = recipe(corpus, causal).model_copy(update={"training": training})
    finish(train(settings, tmp_path / "whole"))
    assert interrupted_at({27}, train(settings, tmp_path / "parts")).interrupted
    finish(resume(tmp_path / "parts"))
    assert (tmp_path / "parts" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()


def test_training_goes_on_from_a_trained_model(trained: Path, corpus: Path, tmp_path: Path):
    values = recipe(corpus).model_dump(mode="json", exclude_none=True)
    causal = clearhead.load(trained).settings["masking"]["causal"]
    values |= {"masking": {"causal": causal}, "training": {"steps": 5, "init_from": str(trained)}}
    del values["model"], values["tokenizer"]
    before = clearhead.load(trained).evaluate(trained).record["accuracy"]
    finish(train(parse_settings(MaskedRecipe, values), tmp_path / "more"))
    assert clearhead.load(tmp_path / "more").evaluate(trained).record["accuracy"] > before - 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"head": {"kind": "classifier"}}}, "model.head.kind is 'classifier'; masked text needs"),
        (
            {"masking": {"causal": 0.5}, "model": {"head": {"kind": "masked_tokens"}}},
            'masking.causal needs model.head.predict_from = "previous"',
        ),
        ({"batches": {"kind": "crops"}}, "batches.kind is 'crops'; masked text is always packed"),
        ({"batches": {"row_length": 2000}}, "batches.row_length 2000 exceeds model.max_length 512"),
        ({"tokenizer": {"dropout": 0.1}}, "dropout has no effect on masked text"),
        ({"model": {"position": "fraction"}}, "cannot be packed"),
    ],
)
def test_recipes_that_cannot_work_are_refused(changes: dict, message: str):
    with pytest.raises(SettingsError, match=message):
        parse_settings(MaskedRecipe, {"data": {"train": ["x.txt"]}, **changes})


def test_a_model_without_a_mask_token_is_not_a_start(corpus: Path, tmp_path: Path):
    from clearhead.checkpoint import save_checkpoint
    from clearhead.models import Encoder
    from clearhead.text.processor import TextProcessor
    from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

    tokenizer = Tokenizer.train(sentences(20), TokenizerConfig(kind="word", vocabulary=60))
    config = recipe(corpus).model
    plain = Encoder.build(config, TextProcessor(tokenizer))
    save_checkpoint(tmp_path / "plain", plain, TextProcessor(tokenizer), {"kind": "masked"})
    with pytest.raises(ModelError, match="has no mask token; this model fills no masks"):
        clearhead.load(tmp_path / "plain")
    values = {"data": {"train": [str(corpus)]}, "training": {"init_from": str(tmp_path / "plain")}}
    with pytest.raises(DataError, match=r"training\.init_from: .* has no mask token; name a masked model"):
        finish(train(parse_settings(MaskedRecipe, values), tmp_path / "out"))


def test_a_recipe_is_sized_to_its_text(corpus: Path, tmp_path: Path):
    fitted = fit_masked([str(corpus)], ["training.steps=10"])
    assert fitted.recipe.data.documents == "line"
    assert fitted.recipe.training.steps == 10
    assert fitted.recipe.model.width == 64
    assert "400 documents" in fitted.choices()[0]
    wrapped = tmp_path / "wrapped.txt"
    wrapped.write_text("\n".join(["a text that goes on", "over many lines and", "never ends one"] * 50))
    assert fit_masked([str(wrapped)]).recipe.data.documents == "file"
    table = tmp_path / "table.tsv"
    table.write_text("".join(f"1\t{line}\n" for line in sentences(50)))
    with pytest.raises(DataError, match="has columns; name the one that holds the text"):
        fit_masked([str(table)])
    assert "50 documents" in fit_masked([str(table)], ["data.field=1"]).choices()[0]
