"""Arguments from Python: invalid ones are reported before any work."""

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
import torch

from clearhead.errors import SettingsError, TextError
from clearhead.options import Options, as_texts
from clearhead.tasks.language.generation import GenerateOptions
from clearhead.tasks.load import load
from clearhead.tasks.translation.options import Sampling, TranslateOptions


@dataclass(frozen=True)
class DrawOptions(Options):
    size: int = 3
    colour: str | None = None
    scale: float = 1.0


@pytest.fixture(scope="module")
def translator(number_model):
    return load(number_model)


@pytest.fixture(scope="module")
def language(babbler):
    return load(babbler)


def test_options_report_all_wrong_types_batch_size():
    with pytest.raises(SettingsError) as error:
        DrawOptions(size="big", colour=3)  # pyright: ignore[reportArgumentType]
    assert error.value.problems == (
        "size: 'big' is not an integer",
        "colour: 3 is not a string (put it in quotes)",
    )


def test_options_hold_python_numbers_and_are_frozen():
    options = DrawOptions(size=np.int64(5), scale=torch.tensor(0.5))  # pyright: ignore[reportArgumentType]
    assert (type(options.size), type(options.scale)) == (int, float)
    assert options == DrawOptions(size=5, scale=0.5)
    with pytest.raises(FrozenInstanceError):
        options.size = 4  # pyright: ignore[reportAttributeAccessIssue]


def test_unknown_options_are_type_errors(translator, language):
    for method in (translator.translate, translator.explain, translator.stream):
        with pytest.raises(TypeError, match="nonsense"):
            method("one", nonsense=1)
    for method in (language.generate, language.stream, language.explain, language.truncated):
        with pytest.raises(TypeError, match="temperatur"):
            method("to be", temperatur=1)
    explanation = translator.explain("one")
    with pytest.raises(TypeError, match="atention"):
        explanation.picture("head", atention="cross")


def test_saving_to_a_folder_rejects_unknown_options(translator, tmp_path):
    with pytest.raises(TypeError, match="hed"):
        translator.explain("one").save(tmp_path / "pictures", hed=1)
    assert not (tmp_path / "pictures").exists()


@pytest.mark.parametrize(
    ("kind", "given", "messages"),
    [
        (
            GenerateOptions,
            {"tokens": "many", "top_p": "half"},
            ("tokens: 'many' is not an integer", "top_p: 'half' is not a number"),
        ),
        (GenerateOptions, {"stop": ["a", 3]}, ("stop: 3 is not a string (put it in quotes)",)),
        (GenerateOptions, {"seed": 1.5}, ("seed: 1.5 is not an integer",)),
        (GenerateOptions, {"temperature": None}, ("temperature: None is not a number",)),
        (TranslateOptions, {"beam": True}, ("beam: True is not an integer",)),
        (
            TranslateOptions,
            {"sampling": {"top_k": 1}},
            ("sampling: {'top_k': 1} should be an instance of Sampling",),
        ),
        (TranslateOptions, {"prefix": [1, "a"]}, ("prefix: 'a' is not an integer",)),
        (Sampling, {"temperature": "hot"}, ("temperature: 'hot' is not a number",)),
    ],
)
def test_options_of_a_wrong_type_are_rejected(kind, given, messages):
    with pytest.raises(SettingsError) as error:
        kind(**given)
    assert error.value.problems == messages


def test_numpy_and_torch_scalars_count_as_numbers(language):
    options = {"tokens": np.int64(5), "temperature": np.float32(0.5), "seed": torch.tensor(3)}
    assert (
        language.generate("to", **options).text
        == language.generate("to", tokens=5, temperature=0.5, seed=3).text
    )


def test_an_item_that_is_no_string_is_named_by_number(translator, language):
    with pytest.raises(TextError, match="text 2: 3 is of type int; pass a str"):
        translator.translate(["one", 3])
    with pytest.raises(TextError, match="text 2: None is of type NoneType"):
        list(translator.stream(["one", None], batch_size=1))
    with pytest.raises(TextError, match="prompt 1: 3 is of type int"):
        language.generate(3)
    with pytest.raises(TextError, match="target: 3 is of type int"):
        translator.explain("one", target=3)


def test_texts_may_come_from_any_iterable(translator):
    assert as_texts(text for text in ("one", "two")) == ["one", "two"]
    texts = ["one two", "three"]
    assert list(map(str, translator.translate(iter(texts)))) == list(map(str, translator.translate(texts)))


def test_a_stream_needs_several_texts_and_a_positive_batch_size(translator):
    with pytest.raises(TextError, match="texts: 'one two' is one text; give a list, or use translate"):
        next(translator.stream("one two"))
    with pytest.raises(SettingsError, match="batch_size: 0 should be at least 1"):
        next(translator.stream(["one"], batch_size=0))
