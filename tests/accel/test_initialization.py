"""Loading samples no weights that it overwrites, and everything else as a plain build does."""

import math
import random

import numpy as np
import pytest
import torch
from torch import nn

from clearhead.accel.initialization import build_for_loading
from clearhead.checkpoint import set_weights, weights
from clearhead.models import GPT, GPTConfig, Translator, TranslatorConfig

MODELS = {
    "translator": lambda: Translator(TranslatorConfig(encoder_layers=1, decoder_layers=1), 100),
    "untied": lambda: Translator(TranslatorConfig(encoder_layers=1, decoder_layers=1, tied="none"), 100),
    "gpt": lambda: GPT(GPTConfig(layers=1), 100),
    "additive": lambda: GPT(GPTConfig.model_validate({"layers": 1, "attention": {"score": "additive"}}), 100),
}


class Base(nn.Module):
    """A linear layer, whose parameters are sampled before anything else."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)


class NormalBuffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", torch.randn(7), persistent=False)


class ScaledBuffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", 2 * torch.randn(7) + 1, persistent=False)


class UniformBuffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", torch.rand(7), persistent=False)


class FilledBuffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", torch.zeros(7), persistent=False)
        nn.init.trunc_normal_(self.noise)


class IndexedBuffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", torch.zeros(7), persistent=False)
        self.noise[2:5] = torch.randn(3)


class BufferOfParameter(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", self.linear.weight.detach().norm(dim=0), persistent=False)


class PlainAttribute(Base):
    """A random tensor that is neither a parameter nor a buffer."""

    def __init__(self):
        super().__init__()
        self.noise = [torch.randn(7)]


class Number(Base):
    def __init__(self):
        super().__init__()
        self.noise = torch.randn(()).item()


class Choice(Base):
    def __init__(self):
        super().__init__()
        self.noise = 1 if torch.randn(()) > 0 else -1


class Rejection(Base):
    """Samples until the numbers suit it; on uninitialised memory it might never end."""

    def __init__(self):
        super().__init__()
        noise = torch.full((3,), math.inf)
        while (noise.abs() > 1).any():
            noise.normal_()
        self.noise = noise


class OtherGenerators(Base):
    def __init__(self):
        super().__init__()
        self.noise = [random.random(), np.random.rand(), torch.rand(1).item()]


KINDS = [
    NormalBuffer, ScaledBuffer, UniformBuffer, FilledBuffer, IndexedBuffer, BufferOfParameter, PlainAttribute,
    Number, Choice, Rejection, OtherGenerators,
]  # fmt: skip


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_random_values_outside_of_the_state_dict_are_those_of_a_plain_build(kind, number):
    seed(number)
    plain = kind()
    seed(number)
    loaded = build_for_loading(kind)
    set_weights(loaded, weights(plain), "here")
    for model in (plain, loaded):
        model.noise = model.noise[0] if isinstance(model, PlainAttribute) else model.noise
    torch.testing.assert_close(loaded.noise, plain.noise, rtol=0, atol=0)
    assert torch.equal(loaded.linear.weight, plain.linear.weight)


@pytest.mark.accel
@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_our_models_are_built_once_and_sample_nothing(build):
    built = []
    before = torch.get_rng_state()
    model = build_for_loading(lambda: built.append(build()) or built[-1])
    assert built == [model]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_a_loaded_model_computes_what_the_saved_one_does(build):
    torch.manual_seed(0)
    plain = build()
    loaded = build_for_loading(build)
    set_weights(loaded, weights(plain), "here")
    other = dict(loaded.named_buffers())
    assert all(torch.equal(buffer, other[name]) for name, buffer in plain.named_buffers())
    if isinstance(plain, GPT):
        tokens = torch.randint(100, (2, 9))
        assert torch.equal(plain(tokens), loaded(tokens))


def test_an_error_of_the_build_is_raised():
    with pytest.raises(ZeroDivisionError):
        build_for_loading(lambda: 1 / 0)  # pyright: ignore
