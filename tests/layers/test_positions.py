"""Positions: the formula of each kind, and its properties."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.errors import TextError
from clearhead.layers.block import Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Mask
from clearhead.layers.positions import (
    Alibi,
    Fraction,
    Order,
    Relative,
    Rotary,
    Sinusoidal,
    make_position,
    make_relative,
    sinusoids,
)
from clearhead.models import TranslatorConfig

KINDS = ["sinusoidal", "learned", "rotary", "alibi", "none", "order", "fraction"]
ADDED = {"sinusoidal", "learned", "order", "fraction"}
WIDTH, MAX_POSITIONS = 8, 32


def positions(module: torch.nn.Module, length: int) -> Tensor:
    """What a module adds to the tokens of one text of this length."""
    nothing = torch.zeros(1, length, WIDTH)
    return module(nothing, torch.arange(length), torch.tensor([length]))[0]


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoids_follow_the_formula_of_the_paper(width: int):
    table = sinusoids(torch.arange(20), width)
    for position in range(20):
        for column in range(width):
            angle = position / 10000 ** (column // 2 * 2 / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[position, column].item() == pytest.approx(expected, abs=1e-5)


def test_the_distance_between_sinusoids_depends_only_on_the_offset():
    table = positions(Sinusoidal(WIDTH, MAX_POSITIONS), MAX_POSITIONS)
    for apart in (1, 5, 12):
        distances = (table[apart:] - table[:-apart]).norm(dim=-1)
        torch.testing.assert_close(distances, distances[:1].expand_as(distances), atol=1e-4, rtol=0)


def test_sinusoids_are_bounded_and_differ_at_every_position():
    table = sinusoids(torch.arange(1000), 64)
    assert table.abs().max() <= 1
    assert torch.cdist(table, table).fill_diagonal_(1).min() > 0.1


def test_order_numbers_are_evenly_spaced_but_grow_without_bound():
    added = positions(Order(), MAX_POSITIONS)
    assert torch.equal(added[:, 0], torch.arange(MAX_POSITIONS).float())
    assert (added == added[:, :1]).all()
    assert added.abs().max() == MAX_POSITIONS - 1


def test_fractions_are_bounded_but_their_step_depends_on_the_length():
    short, long = positions(Fraction(MAX_POSITIONS), 5), positions(Fraction(MAX_POSITIONS), 21)
    assert short[0, 0] == long[0, 0] == 0
    assert short[-1, 0] == long[-1, 0] == 1
    assert (short[1] - short[0])[0].item() == pytest.approx(1 / 4)
    assert (long[1] - long[0])[0].item() == pytest.approx(1 / 20)


def test_without_a_length_fractions_are_of_max_positions():
    added = Fraction(MAX_POSITIONS)(torch.zeros(1, 3, WIDTH), torch.arange(3))
    torch.testing.assert_close(added[0, :, 0], torch.tensor([0, 1 / 31, 2 / 31]))


@pytest.mark.parametrize("max_length", [1, 2])
def test_the_fraction_of_a_single_token_is_zero(max_length: int):
    assert positions(Fraction(max_length), 1).count_nonzero() == 0
    assert Fraction(max_length)(torch.zeros(1, 1, WIDTH), torch.arange(1)).count_nonzero() == 0


def at(position: int) -> torch.Tensor:
    return torch.tensor([position])


def test_rotary_products_depend_only_on_distance():
    torch.manual_seed(0)
    rotary = Rotary(WIDTH, MAX_POSITIONS)
    query, key = torch.randn(2, 1, 1, 1, WIDTH).unbind()
    for distance in (0, 1, 7):
        products = torch.stack(
            [
                (rotary.rotate(query, at(position + distance)) * rotary.rotate(key, at(position))).sum()
                for position in range(MAX_POSITIONS - distance)
            ]
        )
        torch.testing.assert_close(products, products[:1].expand_as(products), atol=1e-5, rtol=1e-5)
    near, far = (rotary.rotate(query, at(position)) @ rotary.rotate(key).mT for position in (1, 9))
    assert not torch.allclose(near, far)


def test_rotary_keeps_norms():
    x = torch.randn(2, 3, MAX_POSITIONS, WIDTH)
    rotated = Rotary(WIDTH, MAX_POSITIONS).rotate(x)
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotated[:, :, 0], x[:, :, 0])


def test_rotary_rotates_pairs_by_the_angles_of_the_sinusoids():
    unit = torch.zeros(1, 1, MAX_POSITIONS, WIDTH)
    unit[..., : WIDTH // 2] = 1
    rotated = Rotary(WIDTH, MAX_POSITIONS).rotate(unit)[0, 0]
    table = sinusoids(torch.arange(MAX_POSITIONS), WIDTH)
    torch.testing.assert_close(rotated[:, : WIDTH // 2], table[:, 1::2])
    torch.testing.assert_close(rotated[:, WIDTH // 2 :], table[:, 0::2])


def test_alibi_slopes_are_the_geometric_series_of_the_paper():
    assert Alibi(8).head_slopes.flatten().tolist() == [2**-power for power in range(1, 9)]
    torch.testing.assert_close(Alibi(16).head_slopes.flatten(), 2.0 ** (-torch.arange(1, 17) / 2))


def test_alibi_falls_with_distance():
    bias = Alibi(2).bias(3, 3)
    assert bias is not None
    falls = torch.tensor([[0.0, -1, -2], [-1, 0, -1], [-2, -1, 0]])
    torch.testing.assert_close(bias, torch.stack([falls / 16, falls / 256]))


def test_alibi_of_the_last_queries_is_the_last_rows_of_the_square():
    square, last = Alibi(4).bias(6, 6), Alibi(4).bias(2, 6)
    assert square is not None
    assert last is not None
    assert torch.equal(last, square[:, -2:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_works_in_the_embedding_or_in_attention_but_not_in_both(kind):
    x = torch.zeros(1, 5, WIDTH)
    added = make_position(kind, WIDTH, MAX_POSITIONS)(x, torch.arange(5), torch.tensor([5]))
    assert bool(added.count_nonzero()) == (kind in ADDED)
    assert (type(make_relative(kind, 2, WIDTH, MAX_POSITIONS)) is not Relative) == (
        kind in {"rotary", "alibi"}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_embedded_at_positions_equal_the_same_tokens_inside_a_text(kind):
    embedding = Embedding(11, WIDTH, kind, MAX_POSITIONS, dropout=0.0)
    tokens = torch.randint(11, (2, 9))
    torch.testing.assert_close(embedding(tokens[:, 4:], torch.arange(4, 9)), embedding(tokens)[:, 4:])


def test_an_embedding_is_its_row_times_the_root_of_the_width():
    embedding = Embedding(11, WIDTH, "none", MAX_POSITIONS, dropout=0.0)
    tokens = torch.tensor([[3, 0, 10]])
    torch.testing.assert_close(embedding(tokens)[0], embedding.weight[tokens[0]] * math.sqrt(WIDTH))


def test_initial_embeddings_have_standard_deviation_one():
    torch.manual_seed(0)
    embedding = Embedding(500, 64, "none", MAX_POSITIONS, dropout=0.0)
    assert embedding(torch.arange(500)[None, :MAX_POSITIONS]).std().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_beyond_max_positions_is_refused(kind):
    embedding = Embedding(11, WIDTH, kind, MAX_POSITIONS, dropout=0.0)
    with pytest.raises(
        TextError, match="the text has 33 tokens, but the model takes at most 32; shorten or split it"
    ):
        embedding(torch.zeros(1, 33, dtype=torch.long))


@pytest.mark.parametrize("kind", ["none", "sinusoidal"])
def test_without_positions_order_is_lost(kind):
    """Attention alone gives every order of the tokens the same states."""
    torch.manual_seed(0)
    small = {"width": WIDTH, "ffn_width": 16, "attention": {"heads": 2}, "dropout": 0.0}
    stack = Stack(TranslatorConfig.model_validate(small), layers=2)
    embedding = Embedding(11, WIDTH, kind, MAX_POSITIONS, dropout=0.0)
    tokens, order = torch.randint(11, (1, 6)), torch.tensor([4, 2, 0, 5, 1, 3])
    straight, shuffled = (stack(embedding(text), Mask()) for text in (tokens, tokens[:, order]))
    assert torch.allclose(straight[:, order], shuffled, atol=1e-5) == (kind == "none")
