"""Capture shows what happens inside and changes nothing."""

import pytest
import torch

from clearhead.errors import SettingsError
from clearhead.inspection import capture
from clearhead.layers.layout import Padded
from clearhead.models import Translator, TranslatorConfig


@pytest.fixture
def model() -> Translator:
    torch.manual_seed(0)
    settings = {
        "width": 16,
        "hidden": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "attention": {"heads": 2},
    }
    return Translator(TranslatorConfig.model_validate(settings), vocabulary=20).eval()


@pytest.fixture
def inputs() -> tuple[torch.Tensor, Padded, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, 20, (2, 5), generator=generator)
    return source, Padded(torch.tensor([5, 3])), torch.randint(4, 20, (2, 4), generator=generator)


def test_capture_changes_no_output(model, inputs):
    plain = model(*inputs)
    with capture(model):
        watched = model(*inputs)
    torch.testing.assert_close(watched, plain, atol=1e-6, rtol=1e-5)
    assert torch.equal(model(*inputs), plain)


def test_weights_are_named_by_module_path_and_sum_to_one(model, inputs):
    with capture(model, ["decoder.blocks.*.cross_attention.weights"]) as trace:
        model(*inputs)
    assert list(trace) == [f"decoder.blocks.{block}.cross_attention.weights" for block in (0, 1)]
    weights = trace["decoder.blocks.1.cross_attention.weights"]
    assert weights.shape == (2, 2, 4, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 4))
    assert (weights[1, :, :, 3:] == 0).all(), "padding is never looked at"


def test_what_is_not_asked_for_keeps_the_fused_path(model, inputs):
    with capture(model, ["encoder.*"]):
        tapped = [path for path, module in model.named_modules() if getattr(module, "tap", None)]
    assert tapped == ["encoder.blocks.0.attention", "encoder.blocks.1.attention"]


def test_nothing_remains_after_an_exception(model):
    with pytest.raises(ZeroDivisionError), capture(model):
        raise ZeroDivisionError
    assert all(getattr(module, "tap", None) is None for module in model.modules())


def test_captures_nest(model, inputs):
    with capture(model, ["encoder.*.weights"]) as outer:
        with capture(model, ["encoder.*.scores"]) as inner:
            model(*inputs)
        model(*inputs)
    assert {name.split(".")[-1] for name in outer} == {"weights"}
    assert {name.split(".")[-1] for name in inner} == {"scores"}


def test_a_name_that_nothing_has_is_refused_with_one_near_it(model):
    with (
        pytest.raises(SettingsError, match=r"nothing in the model has this name; near it: encoder\.blocks"),
        capture(model, ["encoder.blocks.0.attention.wieghts"]),
    ):
        pass
