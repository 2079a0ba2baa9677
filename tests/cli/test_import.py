"""clearhead import and clearhead export as a user calls them."""

import json

from safetensors.torch import load_file, save_file


def test_a_model_goes_out_comes_in_and_says_the_same(call, babbler, tmp_path):
    theirs, again = tmp_path / "theirs", tmp_path / "again"
    ended = call("export", babbler, "--to", "huggingface", "--out", theirs)
    assert (ended.code, ended.out) == (0, f"{theirs}\n")
    ended = call("import", theirs, "--out", again, "--json")
    assert json.loads(ended.out)["layers"] == 1
    assert "context 32" in call("import", theirs, "--out", tmp_path / "third").err
    options = ["to be", "--tokens", 20, "--temperature", 0]
    one, other = (call("generate", *options, "--model", model) for model in (babbler, again))
    assert one.out == other.out
    assert one.code == other.code == 0


def test_what_does_not_fit_is_named(refused, babbler, number_model, tmp_path, call):
    theirs = tmp_path / "theirs"
    assert call("export", babbler, "--to", "huggingface", "--out", theirs, "--json").code == 0
    said = refused("export", babbler, "--to", "huggingface", "--out", theirs)
    assert said == f"{theirs}: is there already and not empty; choose another place"
    said = refused("export", number_model, "--to", "huggingface", "--out", tmp_path / "x")
    assert said.endswith("not a language model; only those can be exported to Hugging Face")
    tensors = load_file(theirs / "model.safetensors")
    missing = tensors.pop("transformer.wpe.weight")
    save_file(tensors, theirs / "model.safetensors")
    said = refused("import", theirs, "--out", tmp_path / "x")
    assert said.endswith("model.safetensors: transformer.wpe.weight is missing; copy the folder again")
    save_file(
        tensors | {"transformer.wpe.weight": missing, "extra": missing + 1}, theirs / "model.safetensors"
    )
    said = refused("import", theirs, "--out", tmp_path / "x")
    assert said.endswith("extra is unknown; the model that config.json describes has no such tensor")
    assert refused("import", tmp_path / "nowhere", "--out", tmp_path / "x").endswith(
        "nowhere: no such folder; name one with config.json and model.safetensors"
    )
