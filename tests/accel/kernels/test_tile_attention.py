"""Tile attention equals attention with a mask of all queries and keys."""

import pytest
import torch
import torch.nn.functional as F

HEADS, SCALE = 2, 0.3
# The segment of each position; 0 is padding.
QUERY_SEGMENTS = {
    128: [[1] * 40 + [2] * 30 + [3] * 58, [1] * 100 + [0] * 28],
    64: [[1] * 20 + [2] * 44, [1] * 64],
    96: [[1] * 8 + [2] * 70 + [0] * 18, [1] * 96],
}
KEY_SEGMENTS = {**QUERY_SEGMENTS, 40: [[1] * 3 + [2] * 20 + [0] * 17, [1] * 40]}


def random_parts(
    queries: int, keys: int, split: tuple[int, ...], size: int, device: str
) -> list[torch.Tensor]:
    """Random queries, keys and values, `split` of them in each tensor."""
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    positions = [queries if position == 0 else keys for position in range(len(split))]
    shapes = [(2, length, n, HEADS, size) for length, n in zip(positions, split, strict=True)]
    return [torch.randn(shape, device=device, dtype=kind, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("size", [64, 32])
@pytest.mark.parametrize(
    ("queries", "keys", "causal", "split"),
    [
        (128, 128, True, (3,)),
        (128, 128, False, (1, 2)),
        (64, 64, True, (1, 1, 1)),
        (96, 40, False, (1, 2)),
    ],
)
def test_tiles_equal_a_mask(device, queries, keys, causal, split, size):
    from clearhead.accel.kernels.tile_attention import tile_attention

    torch.manual_seed(0)
    query_segments = torch.tensor(QUERY_SEGMENTS[queries], dtype=torch.int32, device=device)
    key_segments = torch.tensor(KEY_SEGMENTS[keys], dtype=torch.int32, device=device)
    parts = random_parts(queries, keys, split, size, device)
    kind = parts[0].dtype
    tokens = (query_segments > 0)[:, None, :, None]
    gradient = torch.randn(2, HEADS, queries, size, device=device, dtype=kind) * tokens

    out = tile_attention(parts, query_segments, key_segments, causal, SCALE)[0].transpose(1, 2)
    ours = [out * tokens, *torch.autograd.grad(out, parts, gradient)]

    allowed = (query_segments[:, :, None] == key_segments[:, None]) | (query_segments == 0)[:, :, None]
    if causal:
        allowed = allowed & torch.ones_like(allowed[0]).tril()

    def by_mask(kind: torch.dtype) -> list[torch.Tensor]:
        inputs = [part.detach().to(kind).requires_grad_() for part in parts]
        heads = (one.transpose(1, 2) for part in inputs for one in part.unbind(2))
        out = F.scaled_dot_product_attention(*heads, allowed[:, None], scale=SCALE)
        return [out * tokens, *torch.autograd.grad(out, inputs, gradient.to(kind))]

    for mine, usual, true in zip(ours, by_mask(kind), by_mask(torch.float64), strict=True):
        # As near to the exact result as torch's kernel, which rounds in the same steps.
        near, usually = ((made.double() - true).abs().max() for made in (mine, usual))
        assert near <= 1.5 * usually + (1e-3 if device == "cuda" else 1e-5)
