"""Settings: invalid values are reported all at once, by path, with a suggestion."""

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from clearhead.config import Settings, apply_overrides, parse_settings, read_settings, settings_toml
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


def problems(values: dict) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as error:
        parse_settings(Farm, values)
    return error.value.problems


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"model": {"widht": 8}}, "model.widht: unknown setting (did you mean width?)"),
        (
            {"model": {"attention": {"score": "cos"}}},
            "model.attention.score: 'cos' is not one of dot, scaled, general, additive, cosine, location",
        ),
        ({"model": {"width": 100}}, "model: width 100 is not divisible by attention.heads 8"),
        ({"model": {"width": "wide"}}, "model.width: 'wide' is not an integer"),
        ({"model": {"width": -1}}, "model.width: -1 should be greater than 0"),
        ({"model": {"preset": "huge"}}, "model: preset 'huge' is not one of tiny, small, base, big"),
        ({"animal": {"kind": "cat"}}, "animal: 'cat' is not one of dog, bird"),
        ({"animal": {"kind": "bird", "wing": 1}}, "animal.wing: unknown setting (did you mean wings?)"),
        ({"animal": {"kind": "bird", "wings": 1.5}}, "animal.wings: 1.5 is not an integer"),
        ({"model": {"heads": 8}}, "model.heads: unknown setting (did you mean model.attention.heads?)"),
        ({"width": 8}, "width: unknown setting (did you mean model.width?)"),
        (
            {"animal": "bird"},
            "animal: 'bird' is a value, but this is a group of settings; write { kind = \"bird\" }",
        ),
        ({"name": 3}, "name: 3 is not a string (put it in quotes)"),
        ({"fields": "a"}, "fields: 'a' is not a list (put it in brackets)"),
    ],
)
def test_an_error_names_path_value_and_fix(values, problem):
    assert problems({"name": "a", **values}) == (problem,)


def test_ten_errors_are_reported_at_once():
    names = [f"wrong_{number}" for number in range(9)]
    assert len(problems({"model": dict.fromkeys(names, 1)})) == 10


def test_a_missing_setting_is_named():
    assert problems({}) == ("name: is missing",)


def test_settings_round_trip_through_toml(tmp_path: Path):
    farm = Farm(name="x", animal=Bird(wings=3), fields=("a", "b"))
    (tmp_path / "farm.toml").write_text(settings_toml(farm), encoding="utf-8")
    assert read_settings(Farm, tmp_path / "farm.toml") == farm


def test_overrides_are_parsed_as_toml_or_else_taken_as_strings():
    overrides = ["model.width=16", "model.attention.score=dot", "rate=3e-4"]
    values = apply_overrides({"model": {"width": 8}}, overrides)
    assert values == {"model": {"width": 16, "attention": {"score": "dot"}}, "rate": 3e-4}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"Q: {prompt}\nA: {answer}", "Q: {prompt}\nA: {answer}"),
        (r'say "{prompt}"\t\\ \"x\"', 'say "{prompt}"\t\\ "x"'),
        (r"caf\u00e9", "café"),
        (r"'C:\new'", r"C:\new"),
        (r'"a\nb"', "a\nb"),
        ("two\nlines", "two\nlines"),
        ('ends in "', 'ends in "'),
    ],
)
def test_an_override_has_the_escapes_of_toml_with_or_without_quotes(written, value):
    assert apply_overrides({}, [f"data.template={written}"]) == {"data": {"template": value}}


@pytest.mark.parametrize("written", ["C:\\data", "ends in \\"])
def test_an_unknown_escape_in_an_override_is_rejected_with_the_way_out(written):
    with pytest.raises(SettingsError, match="has a backslash that TOML does not know; double it, or put"):
        apply_overrides({}, [f"name={written}"])
    assert apply_overrides({}, [f"name='{written}'"]) == {"name": written}


def test_overrides_do_not_modify_the_given_values():
    before = {"model": {"width": 8}}
    apply_overrides(before, ["model.width=16"])
    assert before == {"model": {"width": 8}}


def test_an_override_without_a_value_is_rejected():
    with pytest.raises(SettingsError, match=r"--set model: write NAME=VALUE, for example model.width=256"):
        apply_overrides({}, ["model"])


def test_settings_beside_a_preset_replace_those_of_the_preset():
    config = TranslatorConfig.model_validate({"preset": "tiny", "width": 64, "attention": {"score": "dot"}})
    assert (config.width, config.ffn_width, config.attention.heads) == (64, 256, 4)
    assert config.attention.score == "dot"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a = ", "not valid TOML"), (b"\xff\xfe", r"not UTF-8 \(byte 0\); save it as UTF-8")],
)
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=message) as error:
        read_settings(Farm, path)
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(SettingsError, match="no such file"):
        read_settings(Farm, tmp_path / "none.toml")


def test_a_value_instead_of_a_group_is_named():
    assert problems({"name": "a", "model": 3}) == ("model: 3 is a value, but this is a group of settings",)
