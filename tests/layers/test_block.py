"""The block and its parts: residuals and norms, feed-forward kinds, the stack, the cache, the settings."""

import pytest
import torch

from clearhead.config import Settings, parse_settings
from clearhead.errors import SettingsError
from clearhead.layers.attention import KeyValues
from clearhead.layers.block import Stack
from clearhead.layers.cache import KVCache, RowMoves
from clearhead.layers.feedforward import FeedForward, SwiGLU, make_feedforward
from clearhead.layers.mask import Causal, LengthMask, Mask
from clearhead.layers.norm import PostNorm, PreNorm, make_norm, make_residual
from clearhead.models import TranslatorConfig

ROWS, HEADS, SIZE, WIDTH = 3, 2, 4, 8


class Recipe(Settings):
    model: TranslatorConfig = TranslatorConfig()


def small(**changes: object) -> TranslatorConfig:
    settings = {"width": WIDTH, "ffn_width": 16, "attention": {"heads": HEADS}, "dropout": 0.0, **changes}
    return TranslatorConfig.model_validate(settings)


def test_a_width_not_divisible_by_the_heads_is_refused():
    with pytest.raises(SettingsError) as caught:
        parse_settings(Recipe, {"model": {"width": 100}})
    assert caught.value.problems == ("model: width 100 is not divisible by attention.heads 8",)


def test_rotary_positions_refuse_an_odd_head_size():
    with pytest.raises(SettingsError) as caught:
        parse_settings(Recipe, {"model": {"width": 24, "position": "rotary"}})
    assert caught.value.problems == ("model: rotary positions need an even head size, not 3",)


def test_an_unknown_score_is_refused_with_the_choices():
    with pytest.raises(SettingsError) as caught:
        parse_settings(Recipe, {"model": {"attention": {"score": "cos"}}})
    choices = "dot, scaled, general, additive, cosine, location"
    assert caught.value.problems == (f"model.attention.score: 'cos' is not one of {choices}",)


def test_layer_norm_gives_mean_zero_and_variance_one():
    x = make_norm("layer", WIDTH)(5 + 3 * torch.randn(2, 4, WIDTH))
    torch.testing.assert_close(x.mean(-1), torch.zeros(2, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.var(-1, correction=0), torch.ones(2, 4), atol=1e-3, rtol=0)


def test_rms_norm_divides_by_the_root_of_the_mean_square():
    x = 5 + torch.randn(2, 4, WIDTH)
    expected = x / x.square().mean(-1, keepdim=True).sqrt()
    torch.testing.assert_close(make_norm("rms", WIDTH)(x), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_post_norm_normalises_the_sum_and_pre_norm_the_input(kind):
    x = 5 + torch.randn(2, 4, WIDTH)
    norm = make_norm(kind, WIDTH)
    torch.testing.assert_close(PostNorm(norm, 0.0)(x, torch.sin), norm(x + x.sin()))
    torch.testing.assert_close(PreNorm(norm, 0.0)(x, torch.sin), x + norm(x).sin())


@pytest.mark.parametrize("position", ["post", "pre"])
def test_residual_dropout_applies_in_training_only(position):
    residual = make_residual(position, make_norm("layer", WIDTH), dropout=0.5)
    x = torch.randn(2, 4, WIDTH)
    assert not torch.equal(residual(x, torch.sin), residual(x, torch.sin))
    residual.eval()
    assert torch.equal(residual(x, torch.sin), residual(x, torch.sin))


ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "squared_relu": lambda x: x.clamp(min=0) ** 2,
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_feed_forward_is_two_products_with_an_activation_between(kind):
    layer = make_feedforward(kind, WIDTH, 16)
    assert isinstance(layer, FeedForward)
    x = torch.randn(2, 4, WIDTH)
    hidden = ACTIVATIONS[kind](x @ layer.inner.weight.T + layer.inner.bias)
    torch.testing.assert_close(layer(x), hidden @ layer.outer.weight.T + layer.outer.bias)


def test_swiglu_gates_the_hidden_values():
    layer = make_feedforward("swiglu", WIDTH, 16)
    assert isinstance(layer, SwiGLU)
    x = torch.randn(2, 4, WIDTH)
    gate = x @ layer.gate.weight.T + layer.gate.bias
    hidden = gate * torch.sigmoid(gate) * (x @ layer.inner.weight.T + layer.inner.bias)
    torch.testing.assert_close(layer(x), hidden @ layer.outer.weight.T + layer.outer.bias)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "swiglu"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("position", ["pre", "post"])
def test_a_causal_stack_keeps_the_shape_and_ignores_later_positions(activation, norm, position):
    stack = Stack(small(activation=activation, norm=norm, norm_position=position), layers=2)
    x = torch.randn(2, 5, WIDTH)
    assert stack(x, Causal()).shape == x.shape
    torch.testing.assert_close(stack(x[:, :3], Causal()), stack(x, Causal())[:, :3])


@pytest.mark.parametrize("position", ["pre", "post"])
def test_the_output_of_a_stack_is_normalised(position):
    states = Stack(small(norm_position=position), layers=2)(9 * torch.randn(2, 5, WIDTH), Mask())
    torch.testing.assert_close(states.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)


def test_cross_attention_sees_the_source_but_not_its_padding():
    torch.manual_seed(0)
    stack = Stack(small(), layers=2, cross=True)
    x, states, mask = torch.randn(2, 5, WIDTH), torch.randn(2, 4, WIDTH), LengthMask(torch.tensor([4, 2]))
    before = stack(x, Causal(), source=stack.project_source(states, mask))
    states[1, 2:] += 1
    torch.testing.assert_close(stack(x, Causal(), source=stack.project_source(states, mask)), before)
    states[1, 1] += 1
    assert not torch.allclose(stack(x, Causal(), source=stack.project_source(states, mask))[1], before[1])


def test_a_cache_grows_and_keeps_everything():
    cache, parts = KVCache(), []
    for positions in (1, 3, 20, 1, 40):
        new = KeyValues(*torch.randn(2, ROWS, HEADS, positions, SIZE).unbind())
        parts.append(new)
        cached = cache.extend(new)
        assert cache.length == sum(part.keys.shape[2] for part in parts)
        assert torch.equal(cached.keys, torch.cat([part.keys for part in parts], dim=2))
        assert torch.equal(cached.values, torch.cat([part.values for part in parts], dim=2))


def test_a_cache_seldom_reallocates():
    cache, buffers = KVCache(), set()
    for _ in range(200):
        cached = cache.extend(KeyValues(*torch.randn(2, ROWS, HEADS, 1, SIZE).unbind()))
        buffers.add(cached.keys.untyped_storage().data_ptr())
    assert len(buffers) <= 6


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 1, 0], [0, 1, 2], [0, 0, 2], [1, 0, 2], [1, 2, 0], [2]])
def test_select_keeps_the_chosen_rows_of_a_cache(rows: list[int]):
    cache = KVCache()
    cache.select(RowMoves(torch.tensor(rows)))
    first, chosen = KeyValues(*torch.randn(2, ROWS, HEADS, 5, SIZE).unbind()), torch.tensor(rows)
    cache.extend(first)
    cache.select(RowMoves(chosen))
    new = KeyValues(*torch.randn(2, len(rows), HEADS, 1, SIZE).unbind())
    cached = cache.extend(new)
    assert torch.equal(cached.keys, torch.cat([first.keys[chosen], new.keys], dim=2))
    assert torch.equal(cached.values, torch.cat([first.select(chosen).values, new.values], dim=2))


@pytest.mark.parametrize("cross", [False, True])
def test_a_stack_with_caches_equals_a_full_pass(cross: bool):
    torch.manual_seed(0)
    stack = Stack(small(position="rotary", norm_position="pre"), layers=2, cross=cross)
    x, source = torch.randn(ROWS, 9, WIDTH), None
    if cross:
        source = stack.project_source(torch.randn(ROWS, 4, WIDTH), LengthMask(torch.tensor([4, 2, 1])))
    full = stack(x, Causal(), source=source)
    caches = [KVCache(), KVCache()]
    sizes = [1, 4, 2, 1, 1]
    parts = zip(x.split(sizes, dim=1), torch.arange(9).split(sizes), strict=True)
    chunks = [stack(part, Causal(), positions, source, caches) for part, positions in parts]
    torch.testing.assert_close(torch.cat(chunks, dim=1), full, atol=1e-5, rtol=1e-5)
