"""The lectures' numbers about positions, sizes and tokens."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead.config import parse_settings
from clearhead.layers.positions import make_position, sinusoids
from clearhead.models.translator import TranslatorConfig
from clearhead.text.tokenizer import Tokenizer


def test_the_base_model_of_the_paper():
    """Width 512, 6 layers, 8 heads of size 64, ffn_width 2048."""
    for config in (TranslatorConfig(), parse_settings(TranslatorConfig, {"preset": "base"})):
        assert (config.width, config.ffn_width) == (512, 2048)
        assert (config.encoder_layers, config.decoder_layers) == (6, 6)
        assert (config.attention.heads, config.width // config.attention.heads) == (8, 64)


def test_sinusoids():
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) = cos of the same."""
    width = 512
    table = sinusoids(torch.arange(100), width)
    for position, i in [(0, 0), (1, 0), (3, 7), (42, 128), (99, 255)]:
        angle = position / 10000 ** (2 * i / width)
        assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
        assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def added(kind, length: int) -> Tensor:
    module = make_position(kind, 64, max_positions=200)
    return module(torch.zeros(1, length, 64), torch.arange(length), torch.tensor([length]))[0]


def unique(kind: str) -> bool:
    """No two positions of a text are the same."""
    table = added(kind, 50)
    return bool(torch.cdist(table, table).fill_diagonal_(1).min() > 1e-3)


def consistent(kind: str) -> bool:
    """Two neighbours are equally far apart in texts of any length."""
    short, long = added(kind, 5), added(kind, 50)
    return torch.allclose((short[1] - short[0]).norm(), (long[1] - long[0]).norm(), rtol=0.01)


def bounded(kind: str) -> bool:
    """Longer texts bring no larger numbers."""
    return added(kind, 200).abs().max().item() <= 1


@pytest.mark.parametrize(
    ("kind", "criteria"),
    [
        ("order", {unique: True, consistent: True, bounded: False}),
        ("fraction", {unique: True, consistent: False, bounded: True}),
        ("sinusoidal", {unique: True, consistent: True, bounded: True}),
    ],
)
def test_the_criteria_each_position_fulfils(kind: str, criteria: dict[Callable[[str], bool], bool]):
    """Option 1, the order number, is not bounded; option 2, the fraction, not consistent; waves are both."""
    assert {criterion: criterion(kind) for criterion in criteria} == criteria


def test_once_upon_a_time(measuring_data: Path):
    """The ids of cl100k_base."""
    ranks = measuring_data / "tokenizers" / "cl100k_base.tiktoken.xz"
    if not ranks.is_file():
        pytest.skip("no cl100k_base ranks among the measuring data")
    tokenizer = Tokenizer.from_tiktoken(ranks)
    assert tokenizer.encode("Once upon a time") == [12805, 5304, 264, 892]
    assert tokenizer.decode([12805, 5304, 264, 892]) == "Once upon a time"
