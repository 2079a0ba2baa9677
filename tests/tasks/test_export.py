"""An exported model is smaller, has only the files it needs, and translates like the original."""

import pytest
from safetensors.torch import load_file, save_file

from clearhead.checkpoint import weights
from clearhead.errors import ModelError, SettingsError
from clearhead.tasks.export import export_int8
from clearhead.tasks.load import load

FILES = {"config.toml", "tokenizer.json", "model.safetensors", "README.md"}


@pytest.fixture(scope="module")
def exported(multilingual_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8") / "model"
    return folder, export_int8(multilingual_model, folder)


@pytest.fixture(scope="module")
def small(exported):
    return exported[0]


def test_the_int8_model_translates_like_the_original(small, multilingual_model):
    original, quantized = load(multilingual_model), load(small)
    for direction in original.directions:
        lines = (multilingual_model / f"test.{direction}.tsv").read_text().splitlines()
        sources = [line.partition("\t")[0] for line in lines]
        ours, theirs = (model.translate(sources, to=direction.target) for model in (quantized, original))
        same = sum(str(one) == str(other) for one, other in zip(ours, theirs, strict=True))
        assert same >= 0.9 * len(sources)
        assert all(abs(one.score - other.score) < 0.5 for one, other in zip(ours, theirs, strict=True))


def test_weights_take_one_byte_each_and_only_needed_files_are_written(exported, multilingual_model):
    small, sizes = exported
    stored = load_file(small / "model.safetensors")
    matrices = [tensor for tensor in stored.values() if tensor.ndim == 2]
    assert {str(tensor.dtype) for tensor in matrices} == {"torch.int8"}
    numbers = sum(tensor.numel() for tensor in weights(load(multilingual_model).model).values())
    assert sum(tensor.numel() * tensor.element_size() for tensor in stored.values()) < 1.4 * numbers
    assert {path.name for path in small.iterdir()} == FILES | {"metrics.jsonl"}
    assert (small / "metrics.jsonl").read_text().count("\n") == 1, "only the scores of the final weights"
    before, after = (
        sum((folder / name).stat().st_size for name in FILES) for folder in (multilingual_model, small)
    )
    assert sizes == (before, after)
    assert after < before


def test_an_exported_model_can_be_exported_again(small, tmp_path):
    export_int8(small, tmp_path / "again")
    first, second = (load_file(folder / "model.safetensors") for folder in (small, tmp_path / "again"))
    assert all(first[name].equal(second[name]) for name in first if not name.endswith("scales"))


def test_existing_folders_are_not_overwritten_and_a_missing_model_is_named(
    small, multilingual_model, tmp_path
):
    with pytest.raises(SettingsError, match="already exists and is not empty; choose another folder"):
        export_int8(multilingual_model, small)
    with pytest.raises(ModelError, match="no such model folder"):
        export_int8(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_scales_are_named_when_the_model_is_loaded(multilingual_model, tmp_path):
    export_int8(multilingual_model, tmp_path / "out")
    file = tmp_path / "out" / "model.safetensors"
    stored = load_file(file)
    del stored["readout_weight.scales"]
    save_file(stored, file)
    with pytest.raises(ModelError, match=r"safetensors: readout_weight is int8, but .*scales is missing"):
        load(tmp_path / "out")
