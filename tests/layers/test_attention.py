"""Attention: the fused kernel equals the explicit steps, and a tap sees and changes them."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.errors import TextError
from clearhead.layers.attention import Attention, AttentionConfig, KeyValues
from clearhead.layers.mask import Causal, KeyMask, LengthMask, Mask, Window
from clearhead.layers.positions import make_relative

BATCH, POSITIONS, WIDTH, HEADS, MAX_POSITIONS = 3, 7, 24, 4, 16

PRODUCTS = ["dot", "scaled", "general", "cosine"]
SCORES = [*PRODUCTS, "additive", "location"]
RELATIVES = ["none", "rotary", "alibi"]
MASKS = {
    "none": Mask(),
    "causal": Causal(),
    "window": Window(2),
    "keys": KeyMask(
        torch.tensor([[True] * 7, [True, False] * 3 + [True], [False, True, True] + [False] * 4])
    ),
    "lengths": LengthMask(torch.tensor([7, 4, 1])),
    "causal and lengths": Causal() & LengthMask(torch.tensor([7, 4, 1])),
    "causal and window": Causal() & Window(2),
}


def no_change(name: str, tensor: Tensor) -> Tensor:
    return tensor


def make_attention(score: str = "scaled", relative: str = "none", heads: int = HEADS) -> Attention:
    torch.manual_seed(0)
    settings = AttentionConfig.model_validate({"heads": heads, "score": score})
    return Attention(
        WIDTH, settings, MAX_POSITIONS, make_relative(relative, heads, WIDTH // heads, MAX_POSITIONS)
    )


def attended(attention: Attention, x: Tensor, queries: int, mask: Mask) -> tuple[Tensor, list[Tensor]]:
    """The output for the last positions of x, and all gradients."""
    x = x.clone().requires_grad_()
    q = attention.project_q(x[:, POSITIONS - queries :], torch.arange(POSITIONS - queries, POSITIONS))
    out = attention(q, attention.project_kv(x), mask)
    upstream = torch.linspace(-1, 1, out.numel()).view_as(out)
    return out, list(torch.autograd.grad(out, [x, *attention.parameters()], upstream))


@pytest.mark.parametrize("relative", RELATIVES)
@pytest.mark.parametrize("queries", [POSITIONS, 3, 1])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", PRODUCTS)
def test_fused_equals_explicit(score: str, mask: str, queries: int, relative: str):
    attention = make_attention(score, relative)
    x = torch.randn(BATCH, POSITIONS, WIDTH)
    fused, fused_gradients = attended(attention, x, queries, MASKS[mask])
    attention.tap = no_change
    explicit, explicit_gradients = attended(attention, x, queries, MASKS[mask])
    torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)
    for one, other in zip(fused_gradients, explicit_gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("relative", RELATIVES)
@pytest.mark.parametrize("score", SCORES)
def test_project_qkv_equals_project_q_and_project_kv(score: str, relative: str):
    attention = make_attention(score, relative)
    x = torch.randn(BATCH, POSITIONS, WIDTH)
    positions = torch.arange(2, 2 + x.shape[1])
    queries, kv = attention.project_qkv(x, positions)
    torch.testing.assert_close(queries, attention.project_q(x, positions))
    torch.testing.assert_close(kv.keys, attention.project_kv(x, positions).keys)
    torch.testing.assert_close(kv.values, attention.project_kv(x, positions).values)


@pytest.mark.parametrize("tapped", [False, True])
@pytest.mark.parametrize("score", SCORES)
def test_keys_prepared_ahead_give_the_same_output(score: str, tapped: bool):
    attention = make_attention(score)
    attention.tap = no_change if tapped else None
    x, rows = torch.randn(BATCH, POSITIONS, WIDTH), torch.tensor([2, 0, 0])
    queries, kv = attention.project_qkv(x)
    prepared = attention.prepare(kv)
    torch.testing.assert_close(attention(queries, prepared, Causal()), attention(queries, kv, Causal()))
    selected = attention(queries[rows], prepared.select(rows), Causal())
    torch.testing.assert_close(selected, attention(queries, kv, Causal())[rows])


def test_a_tap_that_changes_keys_is_heard_even_if_they_were_prepared():
    attention = make_attention("additive")
    queries, kv = attention.project_qkv(torch.randn(BATCH, POSITIONS, WIDTH))
    plain = attention(queries, attention.prepare(kv), Mask())
    attention.tap = lambda name, tensor: tensor * 0 if name == "keys" else tensor
    assert not torch.allclose(attention(queries, attention.prepare(kv), Mask()), plain, atol=1e-3)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_masked_keys_do_not_change_the_output(score: str, mask: str):
    attention = make_attention(score)
    x = torch.randn(BATCH, POSITIONS, WIDTH)
    allowed = MASKS[mask].dense(POSITIONS, POSITIONS, x.device)
    seen = torch.ones(BATCH, POSITIONS, POSITIONS, dtype=torch.bool)
    seen = seen if allowed is None else seen & allowed[:, 0]
    queries, kv = attention.project_qkv(x)
    before = attention(queries, kv, MASKS[mask])
    for key in range(POSITIONS):
        keys, values = kv.keys.clone(), kv.values.clone()
        keys[:, :, key] += 1
        values[:, :, key] += 1
        after = attention(queries, KeyValues(keys, values), MASKS[mask])
        same = torch.isclose(before, after, atol=1e-6).all(-1)
        assert torch.equal(same, ~seen[:, :, key])


def test_one_head_computes_the_formula_of_the_paper():
    attention = make_attention(heads=1)
    x = torch.randn(1, POSITIONS, WIDTH)
    wq, wk, wv = attention.project.weight.chunk(3)
    q, k, v = x[0] @ wq.T, x[0] @ wk.T, x[0] @ wv.T
    expected = torch.softmax(q @ k.T / math.sqrt(WIDTH), dim=-1) @ v @ attention.output.weight.T
    queries, kv = attention.project_qkv(x)
    torch.testing.assert_close(attention(queries, kv, Mask())[0], expected)


def test_heads_are_slices_of_the_projection():
    attention = make_attention()
    x = torch.randn(BATCH, POSITIONS, WIDTH)
    queries, kv = attention.project_qkv(x)
    size = WIDTH // HEADS
    whole = torch.nn.functional.linear(x, attention.project.weight, attention.project.bias)
    for head in range(HEADS):
        columns = slice(head * size, (head + 1) * size)
        torch.testing.assert_close(queries[:, head], whole[..., :WIDTH][..., columns])
        torch.testing.assert_close(kv.keys[:, head], whole[..., WIDTH : 2 * WIDTH][..., columns])
        torch.testing.assert_close(kv.values[:, head], whole[..., 2 * WIDTH :][..., columns])


@pytest.mark.parametrize("score", SCORES)
def test_a_tap_sees_every_step_by_name(score: str):
    attention = make_attention(score)
    seen: dict[str, Tensor] = {}

    def record(name: str, tensor: Tensor) -> Tensor:
        seen[name] = tensor
        return tensor

    attention.tap = record
    queries, kv = attention.project_qkv(torch.randn(BATCH, POSITIONS, WIDTH))
    attention(queries, kv, Causal())
    assert set(seen) == {"queries", "keys", "scores", "masked", "weights", "values", "head_output"}
    assert seen["weights"].shape == (BATCH, HEADS, POSITIONS, POSITIONS)
    torch.testing.assert_close(seen["weights"].sum(-1), torch.ones(BATCH, HEADS, POSITIONS))
    assert seen["weights"].triu(1).count_nonzero() == 0
    torch.testing.assert_close(seen["head_output"], seen["weights"] @ seen["values"])


@pytest.mark.parametrize("score", SCORES)
def test_a_tap_that_changes_the_weights_changes_the_output(score: str):
    attention = make_attention(score)
    queries, kv = attention.project_qkv(torch.randn(BATCH, POSITIONS, WIDTH))
    plain = attention(queries, kv, Mask())

    def only_the_first(name: str, tensor: Tensor) -> Tensor:
        if name != "weights":
            return tensor
        return torch.zeros_like(tensor).index_fill(-1, torch.tensor([0]), 1.0)

    attention.tap = only_the_first
    changed = attention(queries, kv, Mask())
    assert not torch.allclose(plain, changed)
    first = attention.output(kv.values[:, :, 0].flatten(1))
    torch.testing.assert_close(changed, first[:, None].expand_as(changed))
    attention.tap = None
    torch.testing.assert_close(attention(queries, kv, Mask()), plain, rtol=0, atol=0)


def test_a_tap_can_mute_a_head():
    attention = make_attention()
    queries, kv = attention.project_qkv(torch.randn(BATCH, POSITIONS, WIDTH))
    size = WIDTH // HEADS

    def mute_the_second(name: str, tensor: Tensor) -> Tensor:
        return tensor.index_fill(1, torch.tensor([1]), 0.0) if name == "head_output" else tensor

    attention.tap = mute_the_second
    muted = attention(queries, kv, Mask())
    attention.tap = None
    with torch.no_grad():
        attention.output.weight[:, size : 2 * size] = 0
    torch.testing.assert_close(muted, attention(queries, kv, Mask()))


def test_attention_dropout_applies_in_training_only():
    torch.manual_seed(0)
    attention = Attention(WIDTH, AttentionConfig(heads=HEADS, dropout=0.5), MAX_POSITIONS)
    queries, kv = attention.project_qkv(torch.randn(BATCH, POSITIONS, WIDTH))
    assert not torch.equal(attention(queries, kv, Mask()), attention(queries, kv, Mask()))
    attention.eval()
    assert torch.equal(attention(queries, kv, Mask()), attention(queries, kv, Mask()))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("relative", RELATIVES)
@pytest.mark.parametrize("score", SCORES)
def test_half_precision_stays_near_full_precision(score: str, relative: str, training: bool):
    attention = make_attention(score, relative)
    x = torch.randn(BATCH, POSITIONS, WIDTH)
    mask = Causal() & LengthMask(torch.tensor([7, 4, 1]))

    def attend() -> Tensor:
        queries, kv = attention.project_qkv(x)
        return attention(queries, kv, mask)

    with torch.set_grad_enabled(training):
        full = attend()
        with torch.autocast("cpu", torch.bfloat16):
            half = attend()
            attention.tap = no_change
            explicit = attend()
    assert half.dtype == explicit.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), full, atol=0.05, rtol=0.05)
    torch.testing.assert_close(explicit.float(), full, atol=0.05, rtol=0.05)


def test_the_location_score_refuses_texts_beyond_its_positions():
    attention = make_attention("location")
    x = torch.randn(1, MAX_POSITIONS + 1, WIDTH)
    queries, kv = attention.project_qkv(x)
    with pytest.raises(TextError, match="the text has 17 tokens, but the location score takes at most 16"):
        attention(queries, kv, Mask())
