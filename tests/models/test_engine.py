"""The engine decodes with a copy; the model stays as it is, and decodes itself while it is tapped."""

import logging

import pytest
import torch

from clearhead.accel import int8
from clearhead.errors import SettingsError
from clearhead.models import Translator, TranslatorConfig
from clearhead.models.engine import Engine, check_precision, usable_precision
from clearhead.models.static_step import StepEngine

VNNI = "the processor has no VNNI instructions"


@pytest.fixture
def model() -> Translator:
    shape = {"width": 32, "ffn_width": 64, "encoder_layers": 1, "decoder_layers": 1, "max_length": 32}
    return Translator(TranslatorConfig.model_validate({**shape, "attention": {"heads": 2}}), 300).eval()


@pytest.mark.accel
def test_the_model_itself_decodes_while_it_is_tapped(model):
    engine = Engine(model)
    assert isinstance(engine.current(), StepEngine)
    assert engine.current() is engine.current()
    attention = model.decoder.blocks[0].cross_attention
    for tap in (lambda name, value: value, torch.nn.Identity()):
        attention.tap = tap
        assert engine.current() is model
        attention.tap = None
        assert engine.current() is not model


@pytest.mark.accel
@torch.no_grad()
def test_new_weights_make_a_new_copy(model):
    engine = Engine(model)
    before = engine.current()
    model.decoder.blocks[0].feedforward.inner.weight.mul_(2)
    assert engine.current() is not before


def test_an_unknown_precision_is_refused():
    with pytest.raises(SettingsError, match="precision: 'int4' is not one of fp32, bf16, int8"):
        check_precision("int4")


@pytest.mark.parametrize(("accel", "reason"), [(True, VNNI), (False, "CLEARHEAD_ACCEL is off")])
def test_without_int8_the_next_best_is_used_and_said(accel, reason, model, monkeypatch, caplog):
    monkeypatch.setattr(int8, "supported", lambda: False)
    monkeypatch.setattr("clearhead.models.engine.enabled", lambda: accel)
    with caplog.at_level(logging.WARNING):
        assert Engine(model, "int8").precision == "fp32"
    assert f"int8 is not available, because {reason}; using fp32" in caplog.text


def test_beyond_a_cpu_int8_becomes_bf16(model, caplog):
    with caplog.at_level(logging.WARNING):
        assert usable_precision("int8", model.to("meta")) == "bf16"
    assert "int8 is not available, because it needs a CPU; using bf16" in caplog.text


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_every_precision_decodes_nearly_the_same(model, precision):
    engine = Engine(model, precision).current()
    source, lengths = torch.randint(10, 300, (4, 7)), torch.tensor([7, 3, 5, 7])
    with torch.inference_mode():
        states = [one.start(source, lengths) for one in (model, engine)]
        for _ in range(12):
            tokens = torch.randint(10, 300, (4,))
            plain, fast = (
                one.step(tokens, state).float() for one, state in zip((model, engine), states, strict=True)
            )
            assert float((plain - fast).norm() / plain.norm()) < 0.1
