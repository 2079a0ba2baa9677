"""The kernels for rows of several sentences equal attention with a dense mask."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.accel.kernels import block_attention as blocks
from clearhead.layers import segments
from clearhead.layers.mask import Causal, KeyMask, SameSegment

HEADS, SIZE = 2, 16


def segment_rows(positions: int, lengths: list[list[int]], device="cpu") -> torch.Tensor:
    """The segment number at each position; 0 is padding."""
    rows = torch.zeros(len(lengths), positions, dtype=torch.int32, device=device)
    for row, sizes in enumerate(lengths):
        start = 0
        for number, size in enumerate(sizes, start=1):
            rows[row, start : start + size] = number
            start += size
    return rows


def case(positions: int, keys: int, causal: bool, device="cpu", kind=torch.float32, size=SIZE):
    """Random queries, keys and values with a segment mask; no segment is empty on a side."""
    torch.manual_seed(positions + keys + causal)
    q_segments = segment_rows(positions, [[positions // 3, positions // 4, 5], [positions - 1]], device)
    same = positions == keys
    k_segments = q_segments if same else segment_rows(keys, [[1, keys // 2, keys // 4], [keys]], device)
    # Views of one projection, as in Attention.
    q = torch.randn(2, positions, 3, HEADS, size, device=device, dtype=kind)[:, :, 1].transpose(1, 2)
    k, v = torch.randn(2, keys, 2, HEADS, size, device=device, dtype=kind).permute(2, 0, 3, 1, 4)
    mask = SameSegment(q_segments, k_segments)
    return [t.clone().requires_grad_() for t in (q, k, v)], mask & Causal() if causal else mask


def by_mask(q, k, v, scale, mask):
    return F.scaled_dot_product_attention(q, k, v, mask.dense(q.shape[2], k.shape[2], q.device), scale=scale)


def parts(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The tensors in the form that kernels take."""
    return [tensor.transpose(1, 2).unsqueeze(2) for tensor in tensors]


def results(attend, tensors, scale, mask) -> list[torch.Tensor]:
    """The output and the gradients, for a fixed gradient of the output."""
    out = attend(*tensors, scale)
    random = torch.Generator().manual_seed(0)
    gradient = torch.randn(out.shape, generator=random).to(out)
    # The output at padding does not matter.
    first = mask if isinstance(mask, SameSegment) else mask.first
    gradient = gradient * (first.queries > 0)[:, None, :, None]
    gradients = torch.autograd.grad(out, tensors, gradient)
    return [out * (first.queries > 0)[:, None, :, None], *gradients]


@pytest.mark.parametrize(
    ("positions", "keys", "causal"), [(256, 256, True), (256, 256, False), (256, 384, False)]
)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_block_attention_equals_a_dense_mask(positions, keys, causal):
    tensors, mask = case(positions, keys, causal)
    plain = [tensor.detach() for tensor in tensors]  # it has no backward pass on a CPU
    ours = segments._block_attention(parts(*plain), 0.3, *segments.segment_mask(mask))
    torch.testing.assert_close(ours, by_mask(*plain, 0.3, mask), atol=1e-5, rtol=1e-5)


def test_blocks_between_sentences_are_skipped_and_full_ones_need_no_mask():
    numbers = segment_rows(512, [[128, 384]])
    some, whole = blocks.tile_masks(numbers, numbers, causal=True)
    assert some[0, 0].int().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    assert whole[0, 0].int().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]]
    counts, order = blocks.tile_indices(some & ~whole)
    assert counts[0, 0].tolist() == [1, 1, 1, 1]
    assert order[0, 0, :, 0].tolist() == [0, 1, 2, 3]


def test_cpus_and_other_masks_have_no_kernel():
    (q, k, _), mask = case(64, 64, causal=True)
    assert segments.segment_kernel(q.bfloat16(), k.bfloat16(), mask) is None
    assert segments.segment_mask(KeyMask(torch.ones(2, 64, dtype=torch.bool))) == (None, False)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [True, False])
def test_compiled_block_attention_equals_a_dense_mask(causal):
    tensors, mask = case(512, 512, causal, "cuda", torch.bfloat16, 64)

    def attend(q, k, v, scale):
        kernel = segments.segment_kernel(q, k, mask)
        assert kernel is not None
        return kernel(parts(q, k, v), scale)

    ours = results(torch.compile(attend, fullgraph=True), tensors, 0.125, mask)
    theirs = results(lambda *args: by_mask(*args, mask), tensors, 0.125, mask)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)
