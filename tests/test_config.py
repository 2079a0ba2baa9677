"""Settings: what is wrong is refused at once, by path, with the way out."""

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from clearhead.config import Settings, changed, parse_settings, read_settings, settings_toml
from clearhead.errors import SettingsError
from clearhead.models import TranslatorConfig


class Dog(Settings):
    kind: Literal["dog"] = "dog"
    legs: int = 4


class Bird(Settings):
    kind: Literal["bird"] = "bird"
    wings: int = 2


class Farm(Settings):
    name: str
    animal: Dog | Bird = Field(default=Dog(), discriminator="kind")
    model: TranslatorConfig = TranslatorConfig()
    fields: tuple[str, ...] = Field(default=(), strict=False)


def refused(values: dict) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        parse_settings(Farm, values)
    return caught.value.problems


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"model": {"widht": 8}}, "model.widht: unknown setting (did you mean width?)"),
        (
            {"model": {"attention": {"score": "cos"}}},
            "model.attention.score: 'cos' is not one of dot, scaled, general, additive, cosine, location",
        ),
        ({"model": {"width": 100}}, "model: width 100 is not divisible by attention.heads 8"),
        ({"model": {"width": "wide"}}, "model.width: 'wide' is not a whole number"),
        ({"model": {"width": -1}}, "model.width: -1 should be greater than 0"),
        ({"model": {"preset": "huge"}}, "model: preset 'huge' is not one of tiny, small, base, big"),
        ({"animal": {"kind": "cat"}}, "animal: 'cat' is not one of dog, bird"),
        ({"animal": {"kind": "bird", "wing": 1}}, "animal.wing: unknown setting (did you mean wings?)"),
        ({"animal": {"kind": "bird", "wings": 1.5}}, "animal.wings: 1.5 is not a whole number"),
        ({"model": {"heads": 8}}, "model.heads: unknown setting (did you mean model.attention.heads?)"),
        ({"width": 8}, "width: unknown setting (did you mean model.width?)"),
        (
            {"animal": "bird"},
            "animal: 'bird' is a value, but this is a group of settings; write { kind = \"bird\" }",
        ),
        ({"name": 3}, "name: 3 is not text (put it in quotes)"),
    ],
)
def test_a_mistake_is_named_by_path_value_and_way_out(values, problem):
    assert refused({"name": "a", **values}) == (problem,)


def test_ten_mistakes_are_said_at_once():
    names = [f"wrong_{number}" for number in range(9)]
    assert len(refused({"model": dict.fromkeys(names, 1)})) == 10


def test_a_missing_setting_is_named():
    assert refused({}) == ("name: is missing",)


def test_settings_round_trip_through_toml(tmp_path: Path):
    farm = Farm(name="x", animal=Bird(wings=3), fields=("a", "b"))
    (tmp_path / "farm.toml").write_text(settings_toml(farm), encoding="utf-8")
    assert read_settings(Farm, tmp_path / "farm.toml") == farm


def test_changes_are_read_as_toml_or_else_as_text():
    values = changed({"model": {"width": 8}}, ["model.width=16", "model.attention.score=dot", "rate=3e-4"])
    assert values == {"model": {"width": 16, "attention": {"score": "dot"}}, "rate": 3e-4}


def test_changing_leaves_the_given_values_alone():
    before = {"model": {"width": 8}}
    changed(before, ["model.width=16"])
    assert before == {"model": {"width": 8}}


def test_a_change_without_a_value_is_refused():
    with pytest.raises(SettingsError, match=r"--set model: write it as name=value"):
        changed({}, ["model"])


def test_a_preset_stands_for_its_settings_and_those_beside_it_win():
    config = TranslatorConfig.model_validate({"preset": "tiny", "width": 64, "attention": {"score": "dot"}})
    assert (config.width, config.hidden, config.attention.heads) == (64, 256, 4)
    assert config.attention.score == "dot"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"a = ", "not valid TOML"), (b"\xff\xfe", "not UTF-8 text")],
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes, words: str):
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=words) as caught:
        read_settings(Farm, path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(SettingsError, match="no such file"):
        read_settings(Farm, tmp_path / "none.toml")


def test_a_value_where_a_group_belongs_is_named():
    assert refused({"name": "a", "model": 3}) == ("model: 3 is a value, but this is a group of settings",)
