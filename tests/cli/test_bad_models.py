"""A missing, damaged or unsuitable model is reported with its path and the problem."""

import errno
import os
import re
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file


def test_without_built_in_models_the_error_says_how_to_train_one(error_of, no_built_in_models):
    for arguments in (["translate", "x"], ["translate", "x", "--to", "fr"], ["evaluate", "en-fr"]):
        assert error_of(*arguments).endswith(
            ": no such model folder, and no model is built in; "
            "train one: clearhead train quickstart --out runs/quickstart"
        )


def test_without_a_built_in_language_model_generate_lists_the_others(error_of, built_in_model):
    assert error_of("generate", "x") == (
        "shakespeare: no such model folder; built-in models are en-de, de-en, en-fr, fr-en, en-de-fr"
    )


def test_an_unsupported_direction_lists_the_supported_ones(error_of, built_in_model):
    offered = "en-de, de-en, en-fr, fr-en"
    assert error_of("translate", "x", "--model", "de-fr") == (
        f"de-fr: no such model folder; built-in models are {offered}, en-de-fr"
    )
    assert error_of("translate", "x", "--to", "es") == f"--to es: this model translates {offered} only"
    error = error_of("translate", "x", "--model", "en-de", "--to", "fr")
    assert error == "--to fr: this model translates en-de only"
    assert error_of("evaluate", "en-de-fr", "--to", "en", "--pairs", "x").startswith(
        "--from: name a language; "
    )
    assert error_of("evaluate", "en-de-fr", "--pairs", "x").startswith("--to: name a language; ")
    error = error_of("evaluate", "en-de-fr", "--from", "de", "--to", "fr", "--pairs", "x")
    assert error == f"--from de --to fr: this model translates {offered} only"
    assert "this folder has no held-out test pairs" in error_of("evaluate", "en-de")


def test_a_folder_without_a_model_is_named(error_of, tmp_path):
    for command in (["translate", "x", "--model"], ["evaluate"]):
        error = error_of(*command, tmp_path / "nowhere")
        assert error.startswith(f"{tmp_path}/nowhere: no such model folder")
        assert error_of(*command, tmp_path) == f"{tmp_path}: no trained model here, config.toml is missing"
        assert error_of(*command, "") == "the model's name is empty; give a folder or a built-in name"
    assert error_of("models", tmp_path / "nowhere").startswith(f"{tmp_path}/nowhere: no such folder")


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_file_cut_short_is_named(name, share, error_of, copied):
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: int(share * len(content))])
    error = error_of("translate", "--model", copied, "one")
    assert error.startswith(f"{copied / name}: ")
    assert re.search(r"(truncated|cut short) or not .* again$", error)


def test_a_hugging_face_folder_is_answered_with_the_import_command(error_of, call, babbler, tmp_path):
    theirs = tmp_path / "their model"
    assert call("export", babbler, "--to", "huggingface", "--out", theirs).code == 0
    for command in (["generate", "to", "--model"], ["evaluate"], ["explore", "--no-browser"]):
        assert error_of(*command, theirs) == (
            f"{theirs}: is a Hugging Face model; import it first: "
            f"clearhead import '{theirs}' --out 'runs/their model'"
        )


def test_a_model_of_an_inference_engine_is_answered_with_the_original(error_of, call, babbler, tmp_path):
    theirs, original = tmp_path / "theirs", shutil.copytree(babbler, tmp_path / "writer")
    assert call("export", original, "--to", "ctranslate2", "--out", theirs).code == 0
    expected = (
        f"{theirs}: is a CTranslate2 model, which clearhead exports but does not run; use the model that"
    )
    commands = (["generate", "to", "--model", theirs], ["import", theirs, "--out", tmp_path / "new"])
    for command in (*commands, ["bench", theirs]):
        assert error_of(*command) == f"{expected} it was exported from, writer"
    for content in ("{}", "not JSON"):
        (theirs / "config.json").write_text(content)
        assert error_of("evaluate", theirs) == f"{expected} it was exported from"
    (theirs / "model.bin").rename(theirs / "decoder.onnx")
    assert error_of("evaluate", theirs).startswith(f"{theirs}: is an ONNX model, which clearhead exports")


def test_unreadable_weights_are_distinguished_from_damaged_ones(
    error_of, call, babbler, tmp_path, monkeypatch
):
    theirs = tmp_path / "theirs"
    assert call("export", babbler, "--to", "huggingface", "--out", theirs).code == 0
    (theirs / "model.safetensors").write_bytes(b"")
    ours = shutil.copytree(babbler, tmp_path / "ours")
    (ours / "model.safetensors").write_bytes(b"")
    opened = Path.open

    def closed(path: Path, *arguments, **options):
        # Tests may run as root, who can read every file.
        if path.name == "model.safetensors":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", closed)
    for folder, command in (
        (ours, ["generate", "to", "--model"]),
        (theirs, ["import", "--out", tmp_path / "x"]),
    ):
        assert error_of(*command, folder) == (
            f"{folder}/model.safetensors: Permission denied; change its permissions, or copy it"
        )


def test_weights_and_tokenizers_of_another_model_are_detected(error_of, copied, number_model):
    # The same size, so that only the content differs.
    tokenizer = copied / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"seven"', '"sieben"'))
    error = error_of("translate", "--model", copied, "one")
    assert error.startswith(f"{copied}/tokenizer.json: not the file that model.safetensors was trained with")

    shutil.copy(number_model / "tokenizer.json", copied)
    weights = load_file(copied / "model.safetensors")
    changed = dict(weights)
    changed["readout_weight"] = weights["readout_weight"][:-1].clone()
    save_file(changed, copied / "model.safetensors")
    error = error_of("translate", "--model", copied, "one")
    assert "readout_weight is 23 x 32, but config.toml describes 24 x 32" in error

    del changed["readout_weight"]
    save_file(changed, copied / "model.safetensors")
    assert "model.safetensors: has no readout_weight; it belongs to another" in error_of("evaluate", copied)


def test_damaged_settings_are_named(error_of, call, copied):
    settings = copied / "config.toml"
    whole = settings.read_text()
    for old, new, message in (
        ("width = 32", "width = 0", "model.width"),
        ("beam = 5", "beam = 0", "search.beam"),
        ("[model]", "[model", "not valid TOML"),
    ):
        settings.write_text(whole.replace(old, new))
        error = error_of("translate", "--model", copied, "one")
        assert error.startswith(f"{settings}: ")
        assert message in error
    assert call("models", copied.parent).code == 0


def test_export_rejects_an_unknown_format_and_a_folder_in_use(error_of, number_model, tmp_path):
    assert error_of("export", number_model, "--to", "gguf", "--out", tmp_path / "x") == (
        "--to gguf: is not one of int8, huggingface, ctranslate2, onnx, word2vec"
    )
    error = error_of("export", number_model, "--to", "int8", "--out", number_model)
    assert error == f"{number_model}: already exists and is not empty; choose another folder"
    error = error_of("export", "shakespeare", "--to", "huggingface", "--out", tmp_path / "x")
    assert error.endswith("train a model with --set model.activation=swiglu")
    error = error_of("export", tmp_path / "nowhere", "--to", "int8", "--out", tmp_path / "x")
    assert error.startswith(f"{tmp_path}/nowhere: no such model folder; built-in models are")


def test_comparing_with_a_model_for_other_languages_is_rejected(error_of, number_model, copied):
    settings = copied / "config.toml"
    settings.write_text(settings.read_text().replace('target = "de"', 'target = "fr"'))
    error = error_of("evaluate", number_model, "--against", copied)
    assert error.startswith(f"{copied}: translates en-fr, not en-de")
