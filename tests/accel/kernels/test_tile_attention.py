"""Attention in tiles gives what attention with a mask of all queries and keys gives."""

import pytest
import torch
import torch.nn.functional as F

HEADS, SCALE = 2, 0.3
# The number of the sentence at each position; 0 where there is none.
ASKING = {
    128: [[1] * 40 + [2] * 30 + [3] * 58, [1] * 100 + [0] * 28],
    64: [[1] * 20 + [2] * 44, [1] * 64],
    96: [[1] * 8 + [2] * 70 + [0] * 18, [1] * 96],
}
ANSWERING = {**ASKING, 40: [[1] * 3 + [2] * 20 + [0] * 17, [1] * 40]}


def laid_out(queries: int, keys: int, split: tuple[int, ...], size: int, device: str) -> list[torch.Tensor]:
    """Random queries, keys and values, in tensors of so many each."""
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
def test_tiles_give_what_a_mask_gives(device, queries, keys, causal, split, size):
    from clearhead.accel.kernels.tile_attention import tile_attention

    torch.manual_seed(0)
    asking = torch.tensor(ASKING[queries], dtype=torch.int32, device=device)
    answering = torch.tensor(ANSWERING[keys], dtype=torch.int32, device=device)
    parts = laid_out(queries, keys, split, size, device)
    kind = parts[0].dtype
    tokens = (asking > 0)[:, None, :, None]
    gradient = torch.randn(2, HEADS, queries, size, device=device, dtype=kind) * tokens

    out = tile_attention(parts, asking, answering, causal, SCALE)[0].transpose(1, 2)
    ours = [out * tokens, *torch.autograd.grad(out, parts, gradient)]

    allowed = (asking[:, :, None] == answering[:, None]) | (asking == 0)[:, :, None]
    if causal:
        allowed = allowed & torch.ones_like(allowed[0]).tril()

    def by_mask(kind: torch.dtype) -> list[torch.Tensor]:
        inputs = [part.detach().to(kind).requires_grad_() for part in parts]
        heads = (one.transpose(1, 2) for part in inputs for one in part.unbind(2))
        out = F.scaled_dot_product_attention(*heads, allowed[:, None], scale=SCALE)
        return [out * tokens, *torch.autograd.grad(out, inputs, gradient.to(kind))]

    for mine, usual, true in zip(ours, by_mask(kind), by_mask(torch.float64), strict=True):
        # As near to the truth as the usual kernel is, which rounds in the same positions.
        near, usually = ((made.double() - true).abs().max() for made in (mine, usual))
        assert near <= 1.5 * usually + (1e-3 if device == "cuda" else 1e-5)
