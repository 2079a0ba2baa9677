"""clearhead import and clearhead export as a user calls them."""

import json

from safetensors.torch import load_file, save_file


def test_an_exported_and_imported_model_gives_the_same_output(call, babbler, tmp_path):
    theirs, again = tmp_path / "theirs", tmp_path / "again"
    result = call("export", babbler, "--to", "huggingface", "--out", theirs)
    assert (result.code, result.out) == (0, f"{theirs}\n")
    result = call("import", theirs, "--out", again, "--json")
    assert json.loads(result.out)["layers"] == 1
    assert "32 positions" in call("import", theirs, "--out", tmp_path / "third").err
    options = ["to be", "--tokens", 20, "--temperature", 0]
    one, other = (call("generate", *options, "--model", model) for model in (babbler, again))
    assert one.out == other.out
    assert one.code == other.code == 0


def test_an_exported_and_imported_translator_gives_the_same_translations(call, number_model, tmp_path):
    theirs, again = tmp_path / "theirs", tmp_path / "again"
    result = call("export", number_model, "--to", "huggingface", "--out", theirs, "--json")
    assert json.loads(result.out) == {"folder": str(theirs), "model_type": "pegasus"}
    result = call("import", theirs, "--out", again)
    assert (result.code, result.out) == (0, f"{again}\n")
    assert "2 layers, 16 positions" in result.err
    one, other = (call("translate", "three one four", "--model", model) for model in (number_model, again))
    assert one.out == other.out == "3 1 4\n"


def test_a_model_that_does_not_fit_is_named(error_of, babbler, tmp_path, call):
    theirs = tmp_path / "theirs"
    assert call("export", babbler, "--to", "huggingface", "--out", theirs, "--json").code == 0
    error = error_of("export", babbler, "--to", "huggingface", "--out", theirs)
    assert error == f"{theirs}: already exists and is not empty; choose another folder"
    tensors = load_file(theirs / "model.safetensors")
    missing = tensors.pop("transformer.wpe.weight")
    save_file(tensors, theirs / "model.safetensors")
    error = error_of("import", theirs, "--out", tmp_path / "x")
    assert error.endswith("model.safetensors: transformer.wpe.weight is missing; copy the folder again")
    save_file(
        tensors | {"transformer.wpe.weight": missing, "extra": missing + 1}, theirs / "model.safetensors"
    )
    error = error_of("import", theirs, "--out", tmp_path / "x")
    assert error.endswith("extra is unknown; the model that config.json describes has no such tensor")
    assert error_of("import", tmp_path / "nowhere", "--out", tmp_path / "x").endswith(
        "nowhere: no such folder; name one with config.json and model.safetensors"
    )


def test_a_translator_is_exported_to_ctranslate2(call, error_of, number_model, tmp_path):
    out = tmp_path / "out"
    options = ("export", number_model, "--out", out, "--to")
    assert error_of(*options, "huggingface", "--precision", "int8") == (
        "--precision int8: --to huggingface has none; leave it out"
    )
    assert error_of(*options, "ctranslate2", "--precision", "int4") == (
        "--precision int4: is not one of fp32, fp16, bf16, int16, int8"
    )
    result = call(*options, "ctranslate2", "--precision", "int8", "--json")
    assert json.loads(result.out) == {"folder": str(out), "precision": "int8"}
    assert {path.name for path in out.iterdir()} >= {"model.bin", "shared_vocabulary.json", "tokenizer.json"}
