"""A model that is missing, damaged or not for what is asked is named, with what is wrong with it."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file


def test_a_package_without_a_model_says_how_to_get_one(refused, unboxed):
    for arguments in (["translate", "x"], ["translate", "x", "--to", "fr"], ["evaluate", "en-fr"]):
        assert refused(*arguments).endswith(
            ": no such model folder, and this package has no model in it; "
            "train one: clearhead train recipes/translation/quickstart.toml --out runs/quickstart"
        )


def test_a_package_without_a_language_model_asks_for_one(refused, boxed):
    assert refused("generate", "x") == (
        "--model: this package has no language model in it; name a trained one's folder, or train one: "
        "clearhead train --text FILE --out runs/mine"
    )


def test_what_the_built_in_model_cannot_do_is_answered_with_what_it_can(refused, boxed):
    offered = "en-de, de-en, en-fr, fr-en"
    assert refused("translate", "x", "--model", "de-fr") == (
        f"de-fr: no such model folder; built-in models are {offered}"
    )
    assert refused("translate", "x", "--to", "es") == f"--to es: this model translates {offered} only"
    said = refused("translate", "x", "--model", "en-de", "--to", "fr")
    assert said == "--to fr: this model translates en-de only"
    assert refused("evaluate", "en-de-fr", "--to", "en", "--pairs", "x").startswith(
        "--from: name a language; "
    )
    assert refused("evaluate", "en-de-fr", "--pairs", "x").startswith("--to: name a language; ")
    said = refused("evaluate", "en-de-fr", "--from", "de", "--to", "fr", "--pairs", "x")
    assert said == f"--from de --to fr: this model translates {offered} only"
    assert "no test pairs are kept beside this model" in refused("evaluate", "en-de")


def test_a_folder_without_a_model_is_named(refused, tmp_path):
    for command in (["translate", "x", "--model"], ["evaluate"]):
        said = refused(*command, tmp_path / "nowhere")
        assert said.startswith(f"{tmp_path}/nowhere: no such model folder")
        assert refused(*command, tmp_path) == f"{tmp_path}: no trained model here, config.toml is missing"
        assert refused(*command, "") == "the model's name is empty; give a folder or a built-in name"
    assert refused("models", tmp_path / "nowhere").startswith(f"{tmp_path}/nowhere: no such folder")


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_file_cut_short_is_named(name, share, refused, copied):
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: int(share * len(content))])
    said = refused("translate", "--model", copied, "one")
    assert said.startswith(f"{copied / name}: cut short or not")
    assert "again" in said


def test_a_model_of_another_library_is_answered_with_how_to_take_it_over(refused, call, babbler, tmp_path):
    theirs = tmp_path / "their model"
    assert call("export", babbler, "--to", "huggingface", "--out", theirs).code == 0
    for command in (["generate", "to", "--model"], ["evaluate"], ["explore", "--no-browser"]):
        assert refused(*command, theirs) == (
            f"{theirs}: is a model of Hugging Face; take it over first: "
            f"clearhead import '{theirs}' --out 'runs/their model'"
        )


def test_weights_that_may_not_be_read_are_told_from_broken_ones(
    refused, call, babbler, tmp_path, monkeypatch
):
    theirs = tmp_path / "theirs"
    assert call("export", babbler, "--to", "huggingface", "--out", theirs).code == 0
    (theirs / "model.safetensors").write_bytes(b"")
    ours = shutil.copytree(babbler, tmp_path / "ours")
    (ours / "model.safetensors").write_bytes(b"")
    opened = Path.open

    def closed(path: Path, *arguments, **options):
        # The superuser, as whom tests may run, can read what nobody else can.
        if path.name == "model.safetensors":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", closed)
    for folder, command in (
        (ours, ["generate", "to", "--model"]),
        (theirs, ["import", "--out", tmp_path / "x"]),
    ):
        assert refused(*command, folder) == (
            f"{folder}/model.safetensors: Permission denied; "
            "change its rights, or copy it to where you may read"
        )


def test_weights_and_tokenizers_of_other_models_are_told_apart(refused, copied, number_model):
    # Of the same size, so that only its content tells.
    tokenizer = copied / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"seven"', '"sieben"'))
    said = refused("translate", "--model", copied, "one")
    assert said.startswith(
        f"{copied}/tokenizer.json: not the tokenizer that model.safetensors was trained with"
    )

    shutil.copy(number_model / "tokenizer.json", copied)
    weights = load_file(copied / "model.safetensors")
    changed = dict(weights)
    changed["readout_weight"] = weights["readout_weight"][:-1].clone()
    save_file(changed, copied / "model.safetensors")
    said = refused("translate", "--model", copied, "one")
    assert "readout_weight is 23 x 32, config.toml and tokenizer.json ask for 24 x 32" in said

    del changed["readout_weight"]
    save_file(changed, copied / "model.safetensors")
    assert "model.safetensors: has no readout_weight; it belongs to another" in refused("evaluate", copied)


def test_damaged_settings_of_a_model_are_named(refused, call, copied):
    settings = copied / "config.toml"
    whole = settings.read_text()
    for old, new, message in (
        ("width = 32", "width = 0", "model.width"),
        ("beam = 5", "beam = 0", "search.beam"),
        ("[model]", "[model", "not valid TOML"),
    ):
        settings.write_text(whole.replace(old, new))
        said = refused("translate", "--model", copied, "one")
        assert said.startswith(f"{settings}: ")
        assert message in said
    assert call("models", copied.parent).code == 0


def test_an_export_to_an_unknown_form_or_onto_something_is_refused(refused, number_model, tmp_path):
    assert refused("export", number_model, "--to", "gguf", "--out", tmp_path / "x") == (
        "--to gguf: is not one of int8, huggingface"
    )
    said = refused("export", number_model, "--to", "int8", "--out", number_model)
    assert said == f"{number_model}: is there already and not empty; choose another place"
    said = refused("export", "shakespeare", "--to", "huggingface", "--out", tmp_path / "x")
    assert said.endswith("a model trained with --set model.activation=swiglu can go there")
    said = refused("export", tmp_path / "nowhere", "--to", "int8", "--out", tmp_path / "x")
    assert said.startswith(f"{tmp_path}/nowhere: no such model folder; built-in models are")


def test_a_rival_for_other_languages_is_refused(refused, number_model, copied):
    settings = copied / "config.toml"
    settings.write_text(settings.read_text().replace('target = "de"', 'target = "fr"'))
    said = refused("evaluate", number_model, "--against", copied)
    assert said.startswith(f"{copied}: translates en-fr, not en-de")
