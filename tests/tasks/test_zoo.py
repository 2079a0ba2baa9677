"""Models are found by folder or built-in name, and described without being loaded."""

import shutil

import pytest

import clearhead
from clearhead.errors import ModelError
from clearhead.tasks import zoo
from clearhead.tasks.load import load_for
from clearhead.tasks.records import TEST, add_final
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.zoo import ModelInfo, built_in, find, find_models


def test_models_are_found_once_in_a_folder_and_directly_below_it(number_model, tmp_path):
    first = shutil.copytree(number_model, tmp_path / "a")
    shutil.copytree(number_model, tmp_path / "b" / "deeper")
    shutil.copytree(number_model, tmp_path / "c")
    found = find_models([tmp_path, first, tmp_path / "nowhere"])
    assert [model.folder for model in found] == [str(tmp_path / "a"), str(tmp_path / "c")]
    assert [model.folder for model in find_models([first])] == [str(first)]


def test_a_model_is_described_by_its_files(number_model):
    [model] = find_models([number_model])
    assert (model.folder, model.task, model.variants) == (str(number_model), "translation", ("en-de",))
    assert model.megabytes == 0.1
    assert 80 < model.scores["bleu"] <= 100
    assert model.quality() == f"BLEU {model.scores['bleu']:.1f}"


def test_unfinished_and_damaged_folders_are_skipped(number_model, tmp_path):
    for name in ("no settings", "no weights", "broken settings", "odd settings", "no metrics"):
        shutil.copytree(number_model, tmp_path / name)
    (tmp_path / "no settings" / "config.toml").unlink()
    (tmp_path / "no weights" / "model.safetensors").unlink()
    (tmp_path / "broken settings" / "config.toml").write_text("[data")
    (tmp_path / "odd settings" / "config.toml").write_text("data = 3")
    (tmp_path / "no metrics" / "metrics.jsonl").write_text('{"step": 1\n3\n')
    assert find_models([tmp_path]) == [
        ModelInfo(str(tmp_path / "no metrics"), "translation", ("en-de",), 0.1, None),
        ModelInfo(
            str(tmp_path / "odd settings"),
            "translation",
            ("und-und",),
            0.1,
            None,
            find_models([number_model])[0].scores,
        ),
    ]


def test_bleu_on_test_pairs_is_reported_by_direction(multilingual_model, tmp_path):
    folder = shutil.copytree(multilingual_model, tmp_path / "model")
    assert find_models([folder])[0].tested == {}
    add_final(folder, 9, {"en-fr": 49.29, "en-de": 46.51}, TEST)
    [model] = find_models([folder])
    assert model.tested == {"en-de": 46.5, "en-fr": 49.3}
    assert model.quality() == "BLEU 46.5, 49.3"
    assert model.scores["bleu"], "the scores at the end of the run are kept"


def test_the_licence_is_that_of_the_shipped_data(number_model, tmp_path):
    folder = shutil.copytree(number_model, tmp_path / "model")
    assert find_models([folder])[0].licence is None
    settings = (
        '[[data.corpora]]\ntrain = ["tatoeba-en-de"]\n[[data.corpora]]\ntrain = ["mine", "tatoeba-en-fr"]'
    )
    (folder / "config.toml").write_text(settings)
    assert find_models([folder])[0].licence == "CC-BY 2.0 FR, www.manythings.org/anki and tatoeba.org"


def test_a_built_in_translator_can_be_loaded_by_direction(built_in_model):
    assert find("fr-en") == (built_in_model, "fr-en")
    assert find("en-de-fr") == (built_in_model, None)
    assert built_in()[0].variants == ("en-de", "de-en", "en-fr", "fr-en")


def test_a_built_in_name_selects_the_direction(built_in_model):
    assert str(clearhead.load("en-de").translate("three one four")) == "3 1 4"
    assert str(clearhead.load("en-fr").translate("three one four")) == "c a d"
    assert str(clearhead.load("fr-en").translate("c a d")) == "three one four"
    assert clearhead.load("en-fr").directions == (Direction("en", "fr"),)
    assert str(clearhead.load("en-de-fr").translate("three one four", to="fr")) == "c a d"


def test_a_folder_with_a_model_takes_precedence_over_a_built_in_name(
    built_in_model, number_model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en-de").mkdir()
    assert find("en-de") == (built_in_model, "en-de")
    (tmp_path / "en-de").rmdir()
    shutil.copytree(number_model, tmp_path / "en-de")
    folder, variant = find("en-de")
    assert (str(folder), variant) == ("en-de", None)


def test_without_built_in_models_no_name_is_known(no_built_in_models):
    assert built_in() == []
    with pytest.raises(ModelError, match="en-de: no such model folder, and no model is built in; train one"):
        clearhead.load("en-de")


def test_a_built_in_language_model_is_found_by_name(built_in_model, gpt_model, monkeypatch):
    monkeypatch.setitem(zoo.BUILT_IN, "shakespeare", gpt_model)
    assert find("shakespeare") == (gpt_model, None)
    model = built_in()[1]
    assert (model.task, model.variants, model.scores, model.quality()) == ("language", (), {}, "")
    with pytest.raises(ModelError, match=r"built-in models are en-de, .*, en-de-fr, shakespeare$"):
        find("nowhere")


def test_the_built_in_language_model_generates_and_is_small():
    model = load_for("language", "shakespeare")
    assert str(model.generate("ROMEO:", tokens=40, seed=1)) == str(
        model.generate("ROMEO:", tokens=40, seed=1)
    )
    assert model.generate("ROMEO", tokens=1, temperature=0.0).text == ":"
    assert sum(file.stat().st_size for file in find("shakespeare")[0].iterdir()) < 6_000_000


def test_the_built_in_model_of_sentences_completes_them_word_by_word():
    model = load_for("language", "sentences")
    for seed in range(5):
        found = model.generate("She opened the", tokens=40, seed=seed)
        assert found.ended == "end"
        assert found.text.endswith((".", "?", "!", '"'))
    best = model.explain("She opened the")["logits"][-1].topk(3).indices.tolist()
    assert {" door", " box", " window"} == {model.tokenizer.decode([one]) for one in best}
    words = "I would like to know where the nearest station is."
    assert len(model.tokenizer.encode(words)) == len(words.split()) + 1  # the full stop
    text = "Tom  said:\t漢字!\n"
    assert model.tokenizer.decode(model.tokenizer.encode(text)) == text
