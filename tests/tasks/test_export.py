"""An exported folder is smaller, holds what is needed alone, and translates like the model it is made of."""

import pytest
from safetensors.torch import load_file, save_file

from clearhead.checkpoint import weights
from clearhead.errors import ModelError, SettingsError
from clearhead.tasks.export import export_int8, folder_bytes
from clearhead.tasks.load import load


@pytest.fixture(scope="module")
def small(many_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8") / "model"
    export_int8(many_model, folder)
    return folder


def test_the_rounded_model_translates_like_the_whole_one(small, many_model):
    whole, light = load(many_model), load(small)
    for direction in whole.directions:
        lines = (many_model / f"test.{direction}.tsv").read_text().splitlines()
        sources = [line.partition("\t")[0] for line in lines]
        ours, theirs = (model.translate(sources, to=direction.target) for model in (light, whole))
        same = sum(str(one) == str(other) for one, other in zip(ours, theirs, strict=True))
        assert same >= 0.9 * len(sources)
        assert all(abs(one.score - other.score) < 0.5 for one, other in zip(ours, theirs, strict=True))


def test_a_number_takes_a_byte_and_only_what_is_needed_is_there(small, many_model):
    stored = load_file(small / "model.safetensors")
    matrices = [tensor for tensor in stored.values() if tensor.ndim == 2]
    assert {str(tensor.dtype) for tensor in matrices} == {"torch.int8"}
    numbers = sum(tensor.numel() for tensor in weights(load(many_model).model).values())
    assert sum(tensor.numel() * tensor.element_size() for tensor in stored.values()) < 1.4 * numbers
    assert {path.name for path in small.iterdir()} == {
        "config.toml",
        "tokenizer.json",
        "model.safetensors",
        "README.md",
        "metrics.jsonl",
    }
    assert (small / "metrics.jsonl").read_text().count("\n") == 1, "how the published weights do, no more"
    assert folder_bytes(small) < folder_bytes(many_model)


def test_an_exported_model_can_be_exported_again(small, tmp_path):
    export_int8(small, tmp_path / "again")
    first, second = (load_file(folder / "model.safetensors") for folder in (small, tmp_path / "again"))
    assert all(first[name].equal(second[name]) for name in first if not name.endswith("scales"))


def test_nothing_is_written_over_and_a_missing_model_is_named(small, many_model, tmp_path):
    with pytest.raises(SettingsError, match="already exists and is not empty; choose another folder"):
        export_int8(many_model, small)
    with pytest.raises(ModelError, match="no such model folder"):
        export_int8(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_scales_that_are_missing_are_named_on_loading(many_model, tmp_path):
    export_int8(many_model, tmp_path / "out")
    file = tmp_path / "out" / "model.safetensors"
    stored = load_file(file)
    del stored["readout_weight.scales"]
    save_file(stored, file)
    with pytest.raises(ModelError, match=r"safetensors: readout_weight is int8, but .*scales is missing"):
        load(tmp_path / "out")
