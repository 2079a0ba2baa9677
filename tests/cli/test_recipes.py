"""Recipes are listed, printed and trained by name."""

import json
import tomllib

from clearhead import assets


def test_the_list_has_a_line_for_each_recipe(call):
    lines = call("recipes").lines
    assert [line.split()[0] for line in lines] == list(assets.recipes())
    [quickstart] = [line for line in lines if line.startswith("translation/quickstart ")]
    assert quickstart.endswith("  English to German on everyday sentences, in a few minutes on two cores.")
    listed = [json.loads(line) for line in call("recipes", "--json").lines]
    assert [one["name"] for one in listed] == list(assets.recipes())


def test_a_recipe_is_printed_as_it_is(call, error_of):
    printed = call("recipes", "quickstart").out
    assert printed == assets.recipe_path("quickstart").read_text(encoding="utf-8")
    assert json.loads(call("recipes", "quickstart", "--json").out)["content"] == printed
    assert "(did you mean translation/quickstart?)" in error_of("recipes", "quikstart")


def test_a_recipe_is_trained_by_its_name(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("train", "ngrams/shakespeare", "--set", "model.order=2")
    assert result.code == 0, result.err
    assert result.out == "runs/shakespeare\n"
    settings = tomllib.loads((tmp_path / "runs/shakespeare/config.toml").read_text())
    assert (settings["kind"], settings["model"]["order"]) == ("ngrams", 2)


def test_a_name_that_no_recipe_has_is_explained(error_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = error_of("train", "quikstart")
    assert message == (
        "quikstart: no such file or recipe (did you mean translation/quickstart?); "
        "clearhead recipes lists the shipped ones"
    )
    assert "imdb: names several recipes; use one of " in error_of("train", "imdb")
    assert list(tmp_path.iterdir()) == []
