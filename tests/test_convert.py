"""Folders of the first edition are refused with the command that converts them, and converted exactly."""

import shutil
import sys
from pathlib import Path

import convert
import pytest
import tomli_w

from clearhead import assets
from clearhead.checkpoint import SETTINGS, load_checkpoint, save_checkpoint
from clearhead.config import read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.models import build, read_config
from clearhead.retired import ALTERNATIVES, RETIRED_SETTINGS, RETIRED_VALUES, current_name
from clearhead.tasks.recipe import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.text.tokenizer import Tokenizer
from clearhead.training.tensors import read_tree, write_tree

FIRST_EDITION = Path(__file__).parent / "first_edition"
MODELS = ("en-de-fr", "shakespeare")


@pytest.fixture(params=MODELS)
def current(request, tmp_path) -> Path:
    """A model of the first edition's settings under their current names, with random weights."""
    settings = FIRST_EDITION / "converted" / f"{request.param}.toml"
    tokenizer = Tokenizer.load(assets.path(f"models/{request.param}") / Tokenizer.FILE)
    folder = tmp_path / "current" / request.param
    save_checkpoint(folder, build(read_config(read_toml(settings)["model"]), tokenizer), tokenizer)
    shutil.copyfile(settings, folder / SETTINGS)
    return folder


@pytest.fixture
def old(current, tmp_path) -> Path:
    """The same model as the first edition had it; only its settings differ."""
    folder = Path(shutil.copytree(current, tmp_path / current.name))
    shutil.copyfile(FIRST_EDITION / f"{current.name}.toml", folder / SETTINGS)
    return folder


def test_an_old_folder_is_refused_with_the_command_that_converts_it(old):
    with pytest.raises(ModelError) as caught:
        load_checkpoint(old)
    assert str(caught.value) == (
        f"{old}: written by an earlier edition of clearhead; convert it: python scripts/convert.py {old}"
    )


def test_converting_in_place_changes_nothing_but_the_names_of_settings(old, current):
    convert.convert(old)
    for path in current.iterdir():
        assert (old / path.name).read_bytes() == path.read_bytes(), path.name
    load_checkpoint(old)
    assert convert.convert(old) == f"{old}: already up to date; nothing to convert"


def test_converting_a_copy_leaves_the_original_alone(old, current, tmp_path, monkeypatch, capsys):
    before = (old / SETTINGS).read_bytes()
    monkeypatch.setattr(sys, "argv", ["convert.py", str(old), "--out", str(tmp_path / "new")])
    convert.main()
    assert capsys.readouterr().out == f"{tmp_path / 'new'}: converted\n"
    assert (old / SETTINGS).read_bytes() == before
    assert (tmp_path / "new" / SETTINGS).read_bytes() == (current / SETTINGS).read_bytes()
    with pytest.raises(SystemExit, match="2"):
        convert.main()
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'new'}: already exists and is not empty")


def recipe(folder: Path):
    (folder / "text.txt").write_text("to be or not to be, that is the question\n" * 50)
    return parse_recipe(
        {
            "kind": "language",
            "data": {"train": [str(folder / "text.txt")]},
            "tokenizer": {"kind": "character", "vocabulary": 60},
            "model": {"preset": "shakespeare-small", "width": 16, "ffn_width": 32},
            "batches": {"tokens": 256},
            "training": {"device": "cpu", "steps": 2, "save_every": 1},
        }
    )


def retired(settings: dict, group: str = "") -> dict:
    """Settings under the names of the first edition: the inverse of a conversion."""
    former = {new: old for old, new in RETIRED_SETTINGS.items()}
    former |= {other: former[name] for name, other in ALTERNATIVES.items()}
    values = {path: {new: old for old, new in some.items()} for path, some in RETIRED_VALUES.items()}
    result = {}
    for name, value in settings.items():
        path = group + name
        new = retired(value, f"{path}.") if isinstance(value, dict) else value
        result[former.get(path, path).removeprefix(group)] = values.get(path, {}).get(str(new), new)
    return result


def test_a_converted_run_resumes(tmp_path):
    run = tmp_path / "run"
    list(train(recipe(tmp_path), run))
    settings = read_toml(run / SETTINGS)
    (run / SETTINGS).write_text(tomli_w.dumps(retired(settings)))
    for path in run.glob("training/state-*"):
        former = {new: old for old, new in convert.STATE_KEYS.items()}
        state = {former.get(name, name): value for name, value in read_tree(path).items()}
        write_tree(path, state | {"settings": retired(state["settings"])})
    with pytest.raises(SettingsError, match=r"model\.hidden: renamed to model\.ffn_width"):
        list(resume(run, ["training.steps=3"]))
    convert.convert(run)
    assert read_toml(run / SETTINGS) == settings
    *_, finished = resume(run, ["training.steps=3"])
    assert finished.step == 3


@pytest.mark.parametrize("name", MODELS)
def test_every_retired_name_leads_to_a_current_one(name):
    values = read_toml(FIRST_EDITION / f"{name}.toml")
    with pytest.raises(SettingsError) as caught:
        parse_recipe(values, "recipe.toml")
    for problem in caught.value.problems:
        assert "renamed to " in problem
    assert "recipe.toml: model.hidden: renamed to model.ffn_width" in caught.value.problems
    assert "recipe.toml: training.parallel: 'copy' was renamed to 'data_parallel'" in caught.value.problems
    parse_recipe(read_toml(FIRST_EDITION / "converted" / f"{name}.toml"))


def test_a_gpt_has_a_context_length_where_a_translator_has_a_maximum():
    assert current_name("model.longest", {"model.max_length"}) == "model.max_length"
    assert current_name("model.longest", {"model.context_length"}) == "model.context_length"
    assert current_name("model.width", {"model.width"}) is None
    assert current_name("data.cleaning.longest_words", {"data.cleaning.longest_words"}) is None
