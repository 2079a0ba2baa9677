"""A run becomes the built-in model, and the built-in model is as good as its card says."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.checkpoint import CARD, SETTINGS, WEIGHTS, save_weights
from clearhead.config import read_settings, read_toml
from clearhead.data.sources.corpus import Pair
from clearhead.evaluation.bleu import bleu
from clearhead.tasks.language.data import TextCorpus
from clearhead.tasks.language.recipe import TextConfig
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.zoo import BUILT_IN, built_in

ROOT = Path(__file__).parents[2]
DIRECTIONS = ["en-de", "de-en", "en-fr", "fr-en"]
real = pytest.mark.skipif(not BUILT_IN["en-de-fr"].exists(), reason="no built-in model")


@pytest.fixture(scope="module")
def packed(multilingual_model, tmp_path_factory) -> Path:
    """The folder that the script makes of a small model."""
    into = tmp_path_factory.mktemp("into")
    (into / "old").write_text("is replaced")
    command = [sys.executable, ROOT / "scripts" / "release_model.py", multilingual_model, "--out", into]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return into


def test_one_script_turns_a_run_into_the_built_in_model(packed, monkeypatch):
    into = packed
    assert {path.name for path in into.iterdir()} == {
        *("config.toml", "tokenizer.json", "model.safetensors", "README.md", "metrics.jsonl"),
        *(f"test.{direction}.tsv" for direction in DIRECTIONS),
    }
    card = (into / CARD).read_text()
    for direction in DIRECTIONS:
        assert f"| {direction} | " in card
    assert "It's raining cats and dogs." in card
    assert "{" not in card
    monkeypatch.setitem(BUILT_IN, "en-de-fr", into)
    assert str(clearhead.load("fr-en").translate("c a d")) == "three one four"


def test_the_best_of_several_runs_is_released_or_their_average(multilingual_model, tmp_path, capsys):
    release = runpy.run_path(str(ROOT / "scripts" / "release_model.py"))
    weights = load_file(multilingual_model / WEIGHTS)
    runs = [tmp_path / name for name in ("low", "high")]
    noise = {name: 0.5 * torch.randn_like(value) for name, value in weights.items()}
    for run, direction in zip(runs, (-1, 1), strict=True):
        shutil.copytree(multilingual_model, run)
        moved = {name: value + direction * noise[name] for name, value in weights.items()}
        save_weights(moved, run / WEIGHTS)
    assert not list(release["average"](runs, tmp_path)), "runs that did not start from one model"
    for run, start in zip([*runs, runs[0]], ["another", multilingual_model, multilingual_model], strict=True):
        assert not list(release["average"](runs, tmp_path)), "runs that did not start from one model"
        settings = read_toml(run / SETTINGS)
        settings["training"]["init_from"] = str(start)
        (run / SETTINGS).write_text(tomli_w.dumps(settings))
    (mean,) = release["average"](runs, tmp_path)
    assert not (mean / "metrics.jsonl").exists(), "the metrics are those of one run"
    assert release["best"]([*runs, mean], "cpu") == mean
    assert capsys.readouterr().out.count("validation BLEU") == 3


def test_the_card_says_what_the_model_learned_from(multilingual_model):
    release = runpy.run_path(str(ROOT / "scripts" / "release_model.py"))
    recipe = read_settings(TranslationRecipe, ROOT / "recipes/translation/en-de-fr.toml")
    assert "Two teachers of width 512 with 6 encoder and 3 decoder layers" in release["teacher"](recipe)
    assert "probabilities" not in release["teacher"](recipe)
    taught = {"distillation": {"teacher": "runs/en-de-fr-teacher"}, "init_from": "earlier"}
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=taught)})
    assert "from the\nprobabilities of one teacher" in release["teacher"](recipe)
    assert "initialized from an earlier version" in release["teacher"](recipe)
    own = read_settings(TranslationRecipe, multilingual_model / SETTINGS)
    assert release["teacher"](own) == ""


def test_the_demo_shows_sentences_of_every_direction(packed, monkeypatch, capsys):
    monkeypatch.setitem(BUILT_IN, "en-de-fr", packed)
    runpy.run_path(str(ROOT / "scripts" / "demo.py"))["show"]()
    shown = capsys.readouterr().out
    assert all(f"\n{direction}, " in shown for direction in DIRECTIONS)
    assert shown.count("reference: ") == 16


SENSIBLE = {
    "en-de": {"Good morning!": "Morgen", "I am tired.": "müde", "Where is the station?": "Bahnhof"},
    "de-en": {"Guten Morgen!": "orning", "Ich bin müde.": "tired", "Wo ist der Bahnhof?": "station"},
    "en-fr": {"Good morning!": "onjour", "I am tired.": "fatigué", "Where is the station?": "gare"},
    "fr-en": {"Merci beaucoup.": "hank", "Je suis fatigué.": "tired", "Où est la gare ?": "station"},
}


@real
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_built_in_model_translates_plain_sentences(direction):
    model = clearhead.load(direction)
    for source, word in SENSIBLE[direction].items():
        assert word in str(model.translate(source))


@real
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_built_in_model_is_as_good_as_its_card_says(direction):
    """On every twentieth test sentence, so the score may be a few points lower."""
    lines = (BUILT_IN["en-de-fr"] / f"test.{direction}.tsv").read_text(encoding="utf-8").splitlines()[::20]
    pairs = [Pair(*line.split("\t")) for line in lines]
    translations = [
        str(one) for one in clearhead.load(direction).translate([pair.source for pair in pairs], beam=1)
    ]
    [row] = [
        line
        for line in (BUILT_IN["en-de-fr"] / CARD).read_text().splitlines()
        if line.startswith(f"| {direction} | ")
    ][:1]
    stated = float(row.split("|")[2])
    measured = bleu(translations, [pair.target for pair in pairs], direction[-2:]).value
    assert measured > stated - 10
    assert stated >= 40


@real
def test_the_built_in_model_is_small_and_names_the_source_of_its_data():
    assert sum(path.stat().st_size for path in BUILT_IN["en-de-fr"].iterdir()) <= 14_000_000
    model = built_in()[0]
    assert model.variants == tuple(DIRECTIONS)
    assert model.licence is not None
    assert "tatoeba.org" in model.licence
    card = (BUILT_IN["en-de-fr"] / CARD).read_text(encoding="utf-8")
    assert "https://creativecommons.org/licenses/by/2.0/fr/" in card
    assert "tatoeba.org" in card


@pytest.mark.skipif(not BUILT_IN["sentences"].exists(), reason="no built-in model")
def test_the_built_in_model_of_sentences_is_as_good_and_as_small_as_its_card_says():
    folder = BUILT_IN["sentences"]
    report = clearhead.load("sentences").evaluate(folder).record
    card = (folder / CARD).read_text(encoding="utf-8")
    assert f"perplexity {report['perplexity']:.2f} per token (loss {report['loss']:.4f})" in card
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size <= 6_000_000
    assert f"{size / 1e6:.1f} MB with all files" in card
    assert "https://creativecommons.org/licenses/by/2.0/fr/" in card
    [model] = [one for one in built_in() if one.folder == str(folder)]
    assert "tatoeba.org" in str(model.licence)
    held_out = (json.loads(line)["text"] for line in (folder / "validation.jsonl").read_text().splitlines())
    data = TextConfig.model_validate(read_toml(folder / SETTINGS)["data"])
    train = {piece.text for piece in TextCorpus(data, seed=1).pieces("train")}
    assert train.isdisjoint(held_out)


@pytest.mark.skipif(not BUILT_IN["masked-en"].exists(), reason="no built-in model")
def test_the_built_in_encoder_fills_masks_as_well_as_its_card_says():
    model = clearhead.load("masked-en")
    filled = model.fill(["She plays the [MASK] every day.", "I would like a glass of [MASK]."], top=3)
    assert {"▁piano", "▁violin"} <= {candidate.token for candidate in filled[0].masks[0]}
    assert {"▁wine", "▁water"} <= {candidate.token for candidate in filled[1].masks[0]}
    report = model.evaluate(BUILT_IN["masked-en"]).record
    assert report["accuracy"] == pytest.approx(0.561, abs=0.002)
    assert "56.1 %" in (BUILT_IN["masked-en"] / CARD).read_text()
