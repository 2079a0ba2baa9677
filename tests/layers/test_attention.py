"""One attention: what the fused kernel gives is what the textbook's steps give, and a tap can change it."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.errors import TextError
from clearhead.layers.attention import Attention, AttentionConfig, KeyValues
from clearhead.layers.mask import Causal, Keep, Lengths, Mask, Window
from clearhead.layers.positions import make_relative

BATCH, PLACES, WIDTH, HEADS, LONGEST = 3, 7, 24, 4, 16

PRODUCTS = ["dot", "scaled", "general", "cosine"]
SCORES = [*PRODUCTS, "additive", "location"]
RELATIVES = ["none", "rotary", "alibi"]
MASKS = {
    "none": Mask(),
    "causal": Causal(),
    "window": Window(2),
    "keep": Keep(torch.tensor([[True] * 7, [True, False] * 3 + [True], [False, True, True] + [False] * 4])),
    "lengths": Lengths(torch.tensor([7, 4, 1])),
    "causal and lengths": Causal() & Lengths(torch.tensor([7, 4, 1])),
    "causal and window": Causal() & Window(2),
}


def look_on(name: str, tensor: Tensor) -> Tensor:
    return tensor


def make_attention(score: str = "scaled", relative: str = "none", heads: int = HEADS) -> Attention:
    torch.manual_seed(0)
    settings = AttentionConfig.model_validate({"heads": heads, "score": score})
    inside = make_relative(relative, heads, WIDTH // heads, LONGEST)  # pyright: ignore[reportArgumentType]
    return Attention(WIDTH, settings, LONGEST, inside)


def attended(attention: Attention, x: Tensor, queries: int, mask: Mask) -> tuple[Tensor, list[Tensor]]:
    """What the last positions of x see in all of it, and the gradients of everything that took part."""
    x = x.clone().requires_grad_()
    asked = attention.project_q(x[:, PLACES - queries :], torch.arange(PLACES - queries, PLACES))
    out = attention(asked, attention.project_kv(x), mask)
    upstream = torch.linspace(-1, 1, out.numel()).view_as(out)
    return out, list(torch.autograd.grad(out, [x, *attention.parameters()], upstream))


@pytest.mark.parametrize("relative", RELATIVES)
@pytest.mark.parametrize("queries", [PLACES, 3, 1])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", PRODUCTS)
def test_fused_equals_explicit(score: str, mask: str, queries: int, relative: str):
    attention = make_attention(score, relative)
    x = torch.randn(BATCH, PLACES, WIDTH)
    fused, fused_gradients = attended(attention, x, queries, MASKS[mask])
    attention.tap = look_on
    explicit, explicit_gradients = attended(attention, x, queries, MASKS[mask])
    torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)
    for one, other in zip(fused_gradients, explicit_gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("relative", RELATIVES)
@pytest.mark.parametrize("score", SCORES)
def test_asking_and_reading_at_once_equals_asking_and_reading(score: str, relative: str):
    attention = make_attention(score, relative)
    x = torch.randn(BATCH, PLACES, WIDTH)
    positions = torch.arange(2, 2 + x.shape[1])
    queries, memory = attention.project_qkv(x, positions)
    torch.testing.assert_close(queries, attention.project_q(x, positions))
    torch.testing.assert_close(memory.keys, attention.project_kv(x, positions).keys)
    torch.testing.assert_close(memory.values, attention.project_kv(x, positions).values)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_what_the_mask_hides_changes_nothing(score: str, mask: str):
    attention = make_attention(score)
    x = torch.randn(BATCH, PLACES, WIDTH)
    allowed = MASKS[mask].dense(PLACES, PLACES, x.device)
    seen = torch.ones(BATCH, PLACES, PLACES, dtype=torch.bool)
    seen = seen if allowed is None else seen & allowed[:, 0]
    queries, memory = attention.project_qkv(x)
    before = attention(queries, memory, MASKS[mask])
    for key in range(PLACES):
        keys, values = memory.keys.clone(), memory.values.clone()
        keys[:, :, key] += 1
        values[:, :, key] += 1
        after = attention(queries, KeyValues(keys, values), MASKS[mask])
        same = torch.isclose(before, after, atol=1e-6).all(-1)
        assert torch.equal(same, ~seen[:, :, key])


def test_one_head_is_the_formula_of_the_paper():
    attention = make_attention(heads=1)
    x = torch.randn(1, PLACES, WIDTH)
    wq, wk, wv = attention.project.weight.chunk(3)
    q, k, v = x[0] @ wq.T, x[0] @ wk.T, x[0] @ wv.T
    expected = torch.softmax(q @ k.T / math.sqrt(WIDTH), dim=-1) @ v @ attention.output.weight.T
    queries, memory = attention.project_qkv(x)
    torch.testing.assert_close(attention(queries, memory, Mask())[0], expected)


def test_heads_are_slices_of_the_width_concatenated():
    attention = make_attention()
    x = torch.randn(BATCH, PLACES, WIDTH)
    queries, memory = attention.project_qkv(x)
    size = WIDTH // HEADS
    whole = torch.nn.functional.linear(x, attention.project.weight, attention.project.bias)
    for head in range(HEADS):
        columns = slice(head * size, (head + 1) * size)
        torch.testing.assert_close(queries[:, head], whole[..., :WIDTH][..., columns])
        torch.testing.assert_close(memory.keys[:, head], whole[..., WIDTH : 2 * WIDTH][..., columns])
        torch.testing.assert_close(memory.values[:, head], whole[..., 2 * WIDTH :][..., columns])


@pytest.mark.parametrize("score", SCORES)
def test_a_tap_sees_every_step_by_name(score: str):
    attention = make_attention(score)
    seen: dict[str, Tensor] = {}

    def keep(name: str, tensor: Tensor) -> Tensor:
        seen[name] = tensor
        return tensor

    attention.tap = keep
    queries, memory = attention.project_qkv(torch.randn(BATCH, PLACES, WIDTH))
    attention(queries, memory, Causal())
    assert set(seen) == {"queries", "keys", "scores", "masked", "weights", "values", "head_output"}
    assert seen["weights"].shape == (BATCH, HEADS, PLACES, PLACES)
    torch.testing.assert_close(seen["weights"].sum(-1), torch.ones(BATCH, HEADS, PLACES))
    assert seen["weights"].triu(1).count_nonzero() == 0
    torch.testing.assert_close(seen["head_output"], seen["weights"] @ seen["values"])


@pytest.mark.parametrize("score", SCORES)
def test_a_tap_that_changes_the_weights_changes_the_output(score: str):
    attention = make_attention(score)
    queries, memory = attention.project_qkv(torch.randn(BATCH, PLACES, WIDTH))
    plain = attention(queries, memory, Mask())

    def only_the_first(name: str, tensor: Tensor) -> Tensor:
        if name != "weights":
            return tensor
        return torch.zeros_like(tensor).index_fill(-1, torch.tensor([0]), 1.0)

    attention.tap = only_the_first
    bent = attention(queries, memory, Mask())
    assert not torch.allclose(plain, bent)
    first = attention.output(memory.values[:, :, 0].flatten(1))
    torch.testing.assert_close(bent, first[:, None].expand_as(bent))
    attention.tap = None
    torch.testing.assert_close(attention(queries, memory, Mask()), plain, rtol=0, atol=0)


def test_a_tap_can_mute_a_head():
    attention = make_attention()
    queries, memory = attention.project_qkv(torch.randn(BATCH, PLACES, WIDTH))
    size = WIDTH // HEADS

    def mute_the_second(name: str, tensor: Tensor) -> Tensor:
        return tensor.index_fill(1, torch.tensor([1]), 0.0) if name == "head_output" else tensor

    attention.tap = mute_the_second
    muted = attention(queries, memory, Mask())
    attention.tap = None
    with torch.no_grad():
        attention.output.weight[:, size : 2 * size] = 0
    torch.testing.assert_close(muted, attention(queries, memory, Mask()))


def test_dropped_weights_are_dropped_in_training_only():
    torch.manual_seed(0)
    attention = Attention(WIDTH, AttentionConfig(heads=HEADS, dropout=0.5), LONGEST)
    queries, memory = attention.project_qkv(torch.randn(BATCH, PLACES, WIDTH))
    assert not torch.equal(attention(queries, memory, Mask()), attention(queries, memory, Mask()))
    attention.eval()
    assert torch.equal(attention(queries, memory, Mask()), attention(queries, memory, Mask()))


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("relative", RELATIVES)
@pytest.mark.parametrize("score", SCORES)
def test_half_precision_stays_near_full_precision(score: str, relative: str, learning: bool):
    attention = make_attention(score, relative)
    x = torch.randn(BATCH, PLACES, WIDTH)
    mask = Causal() & Lengths(torch.tensor([7, 4, 1]))

    def look() -> Tensor:
        queries, memory = attention.project_qkv(x)
        return attention(queries, memory, mask)

    with torch.set_grad_enabled(learning):
        full = look()
        with torch.autocast("cpu", torch.bfloat16):
            half = look()
            attention.tap = look_on
            explicit = look()
    assert half.dtype == explicit.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), full, atol=0.05, rtol=0.05)
    torch.testing.assert_close(explicit.float(), full, atol=0.05, rtol=0.05)


def test_the_location_score_refuses_more_places_than_it_knows():
    attention = make_attention("location")
    x = torch.randn(1, LONGEST + 1, WIDTH)
    queries, memory = attention.project_qkv(x)
    with pytest.raises(TextError, match="the location score knows 16 positions, the text has 17: shorten it"):
        attention(queries, memory, Mask())
