"""Attention by a lookup, and storing in a cache, equal what torch computes."""

import pytest
import torch

ROWS, HEADS, CAPACITY = 5, 4, 300


@pytest.mark.parametrize("size", [16, 24])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("capacity", [40, CAPACITY])
def test_a_lookup_finds_the_keys_of_each_row(device, size, kv_heads, capacity):
    from clearhead.accel.kernels.cached_attention import cached_attention
    from clearhead.layers.attention import KeyValues, Lookup

    torch.manual_seed(0)
    queries = torch.randn(ROWS, HEADS, 1, size, device=device)
    keys, values = torch.randn(2, ROWS + 2, kv_heads, capacity, size, device=device)
    rows = torch.randint(ROWS + 2, (ROWS, capacity), device=device)
    firsts = torch.tensor([0, 3, 0, 7, 39], device=device)
    lengths = torch.tensor([1, 20, 33, 38, 40], device=device)
    out = cached_attention(queries, keys, values, rows, firsts, lengths, 0.3)
    lookup = Lookup(rows, firsts, lengths)
    own = KeyValues(keys, values).looked_up(lookup)
    mask = lookup.mask.dense(1, capacity, queries.device)
    expected = torch.nn.functional.scaled_dot_product_attention(
        queries, own.keys, own.values, attn_mask=mask, scale=0.3, enable_gqa=True
    )
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_rows_may_share_one_source(device):
    from clearhead.accel.kernels.cached_attention import cached_attention

    torch.manual_seed(0)
    queries = torch.randn(6, 2, 1, 16, device=device)
    keys, values = torch.randn(2, 2, 2, 10, 16, device=device)
    lengths = torch.tensor([7, 7, 7, 10, 10, 10], device=device)
    rows = (torch.arange(6, device=device) // 3)[:, None].expand(-1, 10)
    out = cached_attention(queries, keys, values, rows, torch.zeros_like(lengths), lengths, 1.0)
    for row in range(6):
        length, one = int(lengths[row]), row // 3
        weights = (queries[row] @ keys[one, :, :length].mT).softmax(-1)
        torch.testing.assert_close(out[row], weights @ values[one, :, :length], atol=1e-5, rtol=1e-5)


def test_new_keys_are_stored_as_the_last_of_each_row(device):
    from clearhead.accel.kernels.cached_attention import store

    torch.manual_seed(0)
    # Views of one projection, as attention makes them.
    new_keys, new_values = torch.randn(3, 1, 2, 2, 12, device=device).transpose(1, 3).unbind(2)
    keys, values = torch.zeros(2, 3, 2, 8, 12, device=device)
    lengths = torch.tensor([1, 8, 3], device=device)
    store(new_keys, new_values, keys, values, lengths)
    for kept, new in ((keys, new_keys), (values, new_values)):
        for row, length in enumerate(lengths.tolist()):
            assert torch.equal(kept[row, :, length - 1], new[row, :, 0])
        assert int((kept != 0).any(-1).sum()) == 6
