"""The engine translates as the model itself does: in any batch, in any order, captured or not."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
import pytest
import torch

import clearhead
from clearhead.inspection import Mute, SetRow, capture, intervene
from clearhead.models.engine import Engine, int8_problem
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import TranslateOptions

pytestmark = pytest.mark.accel
COUNT = 1000


@pytest.fixture(scope="module", autouse=True)
def unchecked_shapes():
    """Lets steps be traced: inside a trace, sizes are tensors, which shape annotations reject."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@contextmanager
def plain() -> Iterator[None]:
    """Inside, models decode themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "current", lambda engine: engine.model)
        yield


@pytest.fixture(scope="module")
def texts() -> list[str]:
    folder = clearhead.load("en-de").folder
    assert folder
    lines = (folder / "test.en-de.tsv").read_text(encoding="utf-8").splitlines()
    found = [line.split("\t")[0] for line in lines[:: len(lines) // COUNT]][:COUNT]
    assert len(found) == COUNT
    return found


def tokens(model: TranslationModel, texts: list[str], beam: int, batch: int = COUNT, seed: int = 0):
    """The ids of the translations; texts are decoded in an order and batches that depend on the seed."""
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)
    options = TranslateOptions(beam)
    found = model.translations([texts[one] for one in order], batch_size=batch, options=options)
    return [ids for _, ids in sorted(zip(order, (one.ids for one in found), strict=True))]


@pytest.mark.parametrize("beam", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_in_fp32_the_tokens_are_those_of_the_model_in_any_batch_and_order(beam, texts):
    model = clearhead.load("en-de")
    with plain():
        assert model.engine is model.model
        expected = tokens(model, texts, beam)
    assert model.engine is not model.model
    for batch, seed in ((COUNT, 1), (16, 2)):
        found = tokens(model, texts, beam, batch, seed)
        different = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
        # Two tokens may be equally likely, up to rounding.
        assert len(different) <= 1, different


@pytest.mark.skipif(bool(int8_problem("cpu")), reason="int8 is not available")
@pytest.mark.parametrize("beam", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_in_int8_nearly_all_translations_are_independent_of_their_batch(beam, texts):
    model = clearhead.load("en-de", precision="int8")
    expected = tokens(model, texts, beam)
    for batch, seed in ((COUNT, 1), (16, 2)):
        found = tokens(model, texts, beam, batch, seed)
        same = sum(one == other for one, other in zip(found, expected, strict=True))
        assert same >= 0.995 * COUNT


def seen(model: TranslationModel, text: str, beam: int) -> list[tuple[tuple[int, ...], dict]]:
    """The tokens and tensors of a captured translation, without and with interventions."""
    edits = {
        "decoder.blocks.0.attention.head_output": Mute([0]),
        "decoder.blocks.1.cross_attention.weights": SetRow(1, [1.0], head=1),
    }
    found = []
    for changes in ({}, edits):
        names = ["decoder.blocks.*.attention.weights", "logits"]
        with intervene(model.model, changes), capture(model.model, names) as trace:
            translation = model.translate(text, beam=beam)
        found.append((translation.ids, dict(trace)))
    return found


@pytest.mark.parametrize("beam", [1, 4])
def test_captures_and_interventions_see_every_step_of_the_model(beam, texts):
    model = clearhead.load("en-de")
    before = model.translate(texts[:4], beam=beam)
    for text in texts[:4]:
        found = seen(model, text, beam)
        with plain():
            expected = seen(model, text, beam)
        for (ids, trace), (same_ids, same) in zip(found, expected, strict=True):
            assert ids == same_ids
            assert trace.keys() == same.keys()
            assert all(torch.equal(tensor, same[name]) for name, tensor in trace.items())
    assert model.engine is not model.model
    assert [one.ids for one in model.translate(texts[:4], beam=beam)] == [one.ids for one in before]
