"""What is given from Python and cannot be used is named, with what can, before any work."""

import numpy as np
import pytest
import torch

from clearhead.errors import SettingsError, TextError
from clearhead.options import as_texts, options_of
from clearhead.tasks.language.generation import GenerateOptions
from clearhead.tasks.load import load
from clearhead.tasks.translation.model import Sampling, TranslateOptions


@pytest.fixture(scope="module")
def translator(number_model):
    return load(number_model)


@pytest.fixture(scope="module")
def language(babbler):
    return load(babbler)


def test_unknown_wishes_are_refused_by_name(translator, language):
    for ask in (translator.translate, translator.explain):
        with pytest.raises(SettingsError, match="nonsense: unknown; there are beam, nbest, alpha, prefix"):
            ask("one", nonsense=1)
    for ask in (language.generate, language.stream, language.explain, language.unseen):
        with pytest.raises(SettingsError, match=r"temperatur: unknown \(did you mean temperature\?\)"):
            ask("to be", temperatur=1)
    explanation = translator.explain("one")
    with pytest.raises(TypeError, match="atention"):
        explanation.picture("head", atention="cross")


def test_what_is_saved_in_a_folder_is_chosen_by_known_names(translator, tmp_path):
    with pytest.raises(TypeError, match="hed"):
        translator.explain("one").save(tmp_path / "pictures", hed=1)
    assert not (tmp_path / "pictures").exists()


@pytest.mark.parametrize(
    ("kind", "given", "messages"),
    [
        (
            GenerateOptions,
            {"tokens": "many", "top_p": "half"},
            ("tokens: 'many' is not a whole", "top_p: 'half'"),
        ),
        (GenerateOptions, {"stop": ["a", 3]}, ("stop: 3 is not text (put it in quotes)",)),
        (GenerateOptions, {"seed": 1.5}, ("seed: 1.5 is not a whole number",)),
        (GenerateOptions, {"temperature": None}, ("temperature: None is not a number",)),
        (TranslateOptions, {"beam": True}, ("beam: True is not a whole number",)),
        (
            TranslateOptions,
            {"sampling": {"top_k": 1}},
            ("sampling: {'top_k': 1} should be an instance of Sampling",),
        ),
        (TranslateOptions, {"prefix": [1, "a"]}, ("prefix: 'a' is not a whole number",)),
        (Sampling, {"temperature": "hot"}, ("temperature: 'hot' is not a number",)),
    ],
)
def test_wishes_of_another_type_are_refused_all_at_once(kind, given, messages):
    with pytest.raises(SettingsError) as refused:
        options_of(kind, given)
    assert len(refused.value.problems) == len(messages)
    for problem, message in zip(refused.value.problems, messages, strict=True):
        assert problem.startswith(message)


def test_numbers_of_numpy_and_torch_are_numbers(language):
    options = {"tokens": np.int64(5), "temperature": np.float32(0.5), "seed": torch.tensor(3)}
    assert (
        language.generate("to", **options).text
        == language.generate("to", tokens=5, temperature=0.5, seed=3).text
    )


def test_what_is_no_text_is_named_by_its_number(translator, language):
    with pytest.raises(TextError, match="text 2: 3 is of type int; give one text, as a str"):
        translator.translate(["one", 3])
    with pytest.raises(TextError, match="text 2: None is of type NoneType"):
        list(translator.stream(["one", None], at_once=1))
    with pytest.raises(TextError, match="prompt 1: 3 is of type int"):
        language.generate(3)
    with pytest.raises(TextError, match="target: 3 is of type int"):
        translator.explain("one", target=3)


def test_texts_may_come_from_anything_that_gives_them(translator):
    assert as_texts(text for text in ("one", "two")) == ["one", "two"]
    texts = ["one two", "three"]
    assert list(map(str, translator.translate(iter(texts)))) == list(map(str, translator.translate(texts)))


def test_a_stream_is_of_several_texts_and_takes_at_least_one_at_once(translator):
    with pytest.raises(TextError, match="texts: 'one two' is one text; give a list of them"):
        next(translator.stream("one two"))
    with pytest.raises(SettingsError, match="at_once: 0 should be at least 1"):
        next(translator.stream(["one"], at_once=0))
