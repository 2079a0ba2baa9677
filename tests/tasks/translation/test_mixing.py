"""Pairs of the parent's data, mixed into a fine-tuning run."""

import shutil
from pathlib import Path

import pytest
import tomli_w

from clearhead.config import read_toml
from clearhead.data.cleaning import sample
from clearhead.data.pair import Pair
from clearhead.errors import ClearheadError, DataError
from clearhead.tasks.recipe import parse_recipe
from clearhead.tasks.translation.data import Corpus
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.mixing import training_pairs
from clearhead.tasks.translation.recipe import DataConfig


@pytest.fixture
def new_pairs(numbers, tmp_path) -> Path:
    path = tmp_path / "new.en-de.tsv"
    path.write_text("".join(f"so {source}\tja {target}\n" for source, target in numbers(150)))
    return path


def data_of(parent: Path, pairs: Path, mix: float, languages: tuple[str, str] = ("en", "de")) -> DataConfig:
    data = {"source": languages[0], "target": languages[1], "train": [str(pairs)], "mix": mix}
    data["hold_out"] = {"validation": 10, "test": 10}
    return parse_recipe({"data": data, "training": {"init_from": str(parent)}}).inherited().data


def lines(path: Path) -> set[str]:
    return set(path.read_text().splitlines())


def test_a_share_of_the_pairs_is_the_parents_and_none_of_its_held_out_sentences(number_model, new_pairs):
    data = data_of(number_model, new_pairs, 0.5)
    found = {f"{source}\t{target}" for source, target in Corpus(data, seed=1).pairs("train")}
    own, parents = lines(new_pairs), lines(number_model.parent / "numbers.en-de.tsv")
    assert len(found & own) == 130
    assert 90 <= len(found & parents) <= 170
    assert found <= own | parents
    held_out = lines(number_model / "test.tsv") | lines(number_model / "validation.tsv")
    assert not found & held_out
    assert parents & held_out
    # Nothing is held out from a sample: validation and test have new pairs only.
    for part in ("validation", "test"):
        assert {f"{pair.source}\t{pair.target}" for pair in Corpus(data, seed=1).pairs(part)} < own


def test_a_sample_of_the_parents_data_may_be_empty(number_model, new_pairs):
    data = data_of(number_model, new_pairs, 0.5)
    own, parents = data.corpora
    tiny = data.model_copy(update={"corpora": (own, parents.model_copy(update={"sample": 1e-9}))})
    assert len(list(Corpus(tiny, seed=1).pairs("train"))) == 130


def test_a_sample_is_always_the_same_and_grows_with_its_share():
    pairs = [Pair(f"a {number}", f"b {number}") for number in range(2000)]
    fewer, more = (list(sample(pairs, share)) for share in (0.1, 0.3))
    assert fewer == list(sample(pairs, 0.1))
    assert 150 < len(fewer) < 250
    assert set(fewer) < set(more)
    assert pairs[0] not in sample(pairs, 1.0, without=[Pair("x", "B 0")])
    assert len(list(sample(pairs, 1.0))) == len(pairs)


def test_the_data_of_the_other_direction_is_turned(multilingual_model, new_pairs):
    data = data_of(multilingual_model, new_pairs, 0.5, ("de", "en"))
    found = set(Corpus(data, seed=1).pairs("train"))
    parents = [line.split("\t") for line in lines(multilingual_model.parent / "numbers.en-de.tsv")]
    assert len(found & {Pair(german, english) for english, german in parents}) > 50
    assert not found & {Pair(english, german) for english, german in parents}


def test_missing_data_of_the_parent_is_one_line(number_model, new_pairs, gpt_model, tmp_path):
    parent = Path(shutil.copytree(number_model, tmp_path / "parent"))
    settings = (parent / "config.toml").read_text()
    (parent / "config.toml").write_text(settings.replace("numbers.en-de.tsv", "gone.en-de.tsv"))
    with pytest.raises(
        DataError, match=r"data.mix: the training data of .*parent is gone \(.*gone.en-de.tsv"
    ):
        data_of(parent, new_pairs, 0.5)
    # A part that is there is enough.
    there = str(number_model.parent / "numbers.en-de.tsv")
    corpora = [{"source": "en", "target": "de", "train": [file]} for file in ("gone.en-de.tsv", there)]
    (parent / "config.toml").write_text(
        tomli_w.dumps({**read_toml(number_model / "config.toml"), "data": {"corpora": corpora}})
    )
    assert data_of(parent, new_pairs, 0.5).corpora[1].train == (there,)
    (parent / "config.toml").write_text("\n" + settings[settings.index("[tokenizer]") :])
    with pytest.raises(DataError, match=r"data.mix: .* names no training data for en-de; leave it out"):
        data_of(parent, new_pairs, 0.5)
    without = {"source": "en", "target": "de", "train": ["x.tsv"], "mix": 0.5}
    with pytest.raises(ClearheadError, match=r"data.mix takes pairs of training.init_from, which is missing"):
        parse_recipe({"data": without})


def test_a_recipe_that_has_its_samples_keeps_them(number_model, new_pairs):
    data = data_of(number_model, new_pairs, 0.5)
    values = {"data": data.model_dump(mode="json", exclude_none=True)}
    again = parse_recipe({**values, "training": {"init_from": str(number_model)}}).inherited().data
    assert again == data


def test_training_pairs_are_read_without_held_out_sentences(multilingual_model):
    en_de, de_en = Direction("en", "de"), Direction("de", "en")
    found = training_pairs(multilingual_model, [en_de, de_en])
    assert {pair.swapped for pair in found[de_en]} == set(found[en_de])
    sentences = {side for pair in found[en_de] for side in pair}
    files = [multilingual_model / f"{part}.en-de.tsv" for part in ("test", "validation")]
    held_out = [line.split("\t") for file in files for line in lines(file)]
    assert held_out
    assert not sentences & {side for pair in held_out for side in pair}
