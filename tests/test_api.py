"""The Python API: arguments that editors, help() and type checkers can see, with one source of defaults."""

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import clearhead
from clearhead.cli.caption import caption
from clearhead.cli.generate import generate
from clearhead.cli.translate import translate
from clearhead.errors import ModelError
from clearhead.tasks.captioning.model import CaptionModel, CaptionOptions
from clearhead.tasks.classification.model import SequenceModel
from clearhead.tasks.language.generation import GenerateOptions
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.load import LanguageModels, MaskedModels, Translators, load
from clearhead.tasks.model import TaskModel
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.tasks.zoo import built_in_names

ROOT = Path(__file__).parents[1]


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def public_functions() -> dict[str, typing.Any]:
    """The functions and methods of all public names and of all models in use, by name."""
    found: dict[str, typing.Any] = {}
    # Tasks are imported when they are used.
    assert all(clearhead.TASKS.values())
    for owner in (*(getattr(clearhead, name) for name in clearhead.__all__), *subclasses(TaskModel)):
        members = inspect.getmembers(owner) if inspect.isclass(owner) else [("", owner)]
        for name, member in members:
            function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) else member
            own = inspect.isfunction(function) and function.__module__.startswith("clearhead.")
            if own and (not name.startswith("_") or name == "__init__"):
                found[f"{owner.__name__}.{name}".strip(".")] = function
    return found


def test_no_public_function_hides_its_arguments():
    functions = public_functions()
    assert {"load", "train", "capture", "TranslationModel.translate", "BagModel.evaluate"} <= set(functions)
    assert len([name for name in functions if name.endswith(".evaluate")]) >= 9
    for name, function in functions.items():
        for one in inspect.signature(function).parameters.values():
            assert one.kind is not one.VAR_KEYWORD, f"{name}: **{one.name}"
            typed = one.name in ("self", "cls") or one.annotation is not one.empty
            assert typed, f"{name}: {one.name} has no type"


@pytest.mark.parametrize(
    ("method", "options", "left_out", "changed"),
    [
        (TranslationModel.translate, TranslateOptions, set(), {}),
        (TranslationModel.explain, TranslateOptions, set(), {}),
        (LanguageModel.generate, GenerateOptions, set(), {}),
        (LanguageModel.stream, GenerateOptions, set(), {}),
        (
            LanguageModel.explain,
            GenerateOptions,
            {"stop", "samples", "logprobs", "overflow"},
            {"tokens": 0, "temperature": 0.0},
        ),
        (CaptionModel.caption, CaptionOptions, {"prefix"}, {}),
        (CaptionModel.explain, CaptionOptions, set(), {}),
    ],
)
def test_keyword_arguments_are_those_of_the_options(method, options, left_out, changed):
    parameters, hints = inspect.signature(method).parameters, typing.get_type_hints(options)
    for one in fields(options):
        if one.name in left_out:
            assert one.name not in parameters
            continue
        assert parameters[one.name].annotation == hints[one.name], one.name
        assert parameters[one.name].default == changed.get(one.name, one.default), one.name


@pytest.mark.parametrize(
    ("command", "options", "changed"),
    [
        (translate, TranslateOptions, {"sampling": None}),
        (generate, GenerateOptions, {"stop": None}),
        (caption, CaptionOptions, {"prefix": None}),
    ],
)
def test_commands_have_the_defaults_of_the_options(command, options, changed):
    parameters = inspect.signature(command).parameters
    for one in fields(options):
        if one.name in parameters:
            assert parameters[one.name].default == changed.get(one.name, one.default), one.name
        else:
            assert one.name in changed, one.name


def test_commands_evaluate_with_the_arguments_of_evaluate():
    from clearhead.cli.evaluate import evaluate

    known = set(inspect.signature(evaluate).parameters)
    for model in subclasses(TaskModel):
        if hasattr(model, "evaluate"):
            taken = set(inspect.signature(model.evaluate).parameters)
            callbacks = {"progress", "reading"} | ({"generated"} & taken)
            assert taken - known == {"self", "folder", *callbacks}, model
    assert "explanations" in inspect.signature(SequenceModel.evaluate).parameters


def test_a_model_is_evaluated_on_its_own_folder(number_model):
    model = load(number_model)
    assert model.evaluate(beam=1).record == model.evaluate(number_model, beam=1).record
    loose = TranslationModel(model.model, model.tokenizer, model.directions, model.search)
    with pytest.raises(ModelError, match="folder: this model was not loaded from one; pass the folder"):
        loose.evaluate()


def test_the_types_of_built_in_models_are_known_by_name():
    kinds = {"TranslationModel": Translators, "LanguageModel": LanguageModels, "MaskedModel": MaskedModels}
    assert {name for names in kinds.values() for name in typing.get_args(names)} == set(built_in_names())
    for kind, names in kinds.items():
        for name in typing.get_args(names):
            assert type(load(name)).__name__ == kind, name


CALLERS = """
import clearhead

model = clearhead.load("en-de")
model.translate("one", beam="five")
model.evaluate(pears="test.tsv")
model.score("one", 3)
clearhead.load("shakespeare").generate("to be", temperatur=1)
good: list[clearhead.Translation] = model.translate(["one"], nbest=2, beam=3)
text: str = clearhead.load("shakespeare").generate("to be", tokens=3).text
"""


@pytest.mark.slow
def test_a_type_checker_finds_wrong_arguments(tmp_path):
    (tmp_path / "caller.py").write_text(CALLERS)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT / "src"}"]}}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "caller.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    lines = [line.split(":")[1] for line in found.splitlines() if " - error: " in line]
    assert sorted(set(lines)) == ["5", "6", "7", "8"], found


def test_models_and_results_describe_themselves_in_a_line(number_model, babbler):
    model, language = load(number_model), load(babbler)
    shown = repr(model)
    assert shown.startswith(f"TranslationModel {number_model}: translator, en → de, vocabulary ")
    assert shown.endswith(" parameters on cpu")
    assert repr(language).startswith(f"LanguageModel {babbler}: gpt, vocabulary ")
    translation = model.translate("one", beam=2, nbest=2)
    assert repr(translation) == (
        f"Translation('one' → '{translation}', score {translation.score:.4f}, 2 best)"
    )
    explanation = model.explain("one", names=["logits"])
    assert repr(explanation).startswith("Explanation('one' → ")
    assert repr(explanation).endswith("bytes: logits)")
    for one in (model, language, translation, explanation, model.score("one", "1"), model.align("one", "1")):
        assert "\n" not in repr(one)
        assert len(repr(one)) < 400


def test_explanations_and_pictures_draw_themselves_in_notebooks(number_model):
    explanation = load(number_model).explain("one two")
    for one in (explanation, explanation.picture("head", attention="cross")):
        assert one._repr_png_().startswith(b"\x89PNG")
        assert "<svg" in one._repr_svg_()[:600]
        assert "<img" in one._repr_html_()
