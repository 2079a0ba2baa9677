"""The kernels for rows of sentences give what a mask of all queries and keys gives."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.accel.kernels import block_attention as blocks
from clearhead.layers import segments as sentences
from clearhead.layers.mask import Causal, Keep, SameSegment

HEADS, SIZE = 2, 16


def rows_of_sentences(positions: int, lengths: list[list[int]], device="cpu") -> torch.Tensor:
    """The number of the sentence at each position, 0 where there is none."""
    rows = torch.zeros(len(lengths), positions, dtype=torch.int32, device=device)
    for row, sizes in enumerate(lengths):
        start = 0
        for number, size in enumerate(sizes, start=1):
            rows[row, start : start + size] = number
            start += size
    return rows


def case(positions: int, keys: int, causal: bool, device="cpu", kind=torch.float32, size=SIZE):
    """Random states, and sentences of which none is empty on a side."""
    torch.manual_seed(positions + keys + causal)
    asking = rows_of_sentences(positions, [[positions // 3, positions // 4, 5], [positions - 1]], device)
    same = positions == keys
    answering = asking if same else rows_of_sentences(keys, [[1, keys // 2, keys // 4], [keys]], device)
    # As they come from one product for all: their heads lie apart.
    q = torch.randn(2, positions, 3, HEADS, size, device=device, dtype=kind)[:, :, 1].transpose(1, 2)
    k, v = torch.randn(2, keys, 2, HEADS, size, device=device, dtype=kind).permute(2, 0, 3, 1, 4)
    mask = SameSegment(asking, answering)
    return [t.clone().requires_grad_() for t in (q, k, v)], mask & Causal() if causal else mask


def by_mask(q, k, v, scale, mask):
    return F.scaled_dot_product_attention(q, k, v, mask.dense(q.shape[2], k.shape[2], q.device), scale=scale)


def parts(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """As kernels take them, each by itself."""
    return [tensor.transpose(1, 2).unsqueeze(2) for tensor in tensors]


def results(attend, tensors, scale, mask) -> list[torch.Tensor]:
    """The mixtures and the gradients; the gradients are the same for everybody."""
    out = attend(*tensors, scale)
    random = torch.Generator().manual_seed(0)
    gradient = torch.randn(out.shape, generator=random).to(out)
    # What stands where no token is matters to nobody.
    first = mask if isinstance(mask, SameSegment) else mask.first
    gradient = gradient * (first.queries > 0)[:, None, :, None]
    gradients = torch.autograd.grad(out, tensors, gradient)
    return [out * (first.queries > 0)[:, None, :, None], *gradients]


@pytest.mark.parametrize(
    ("positions", "keys", "causal"), [(256, 256, True), (256, 256, False), (256, 384, False)]
)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_blocks_give_what_a_mask_gives(positions, keys, causal):
    tensors, mask = case(positions, keys, causal)
    plain = [tensor.detach() for tensor in tensors]  # on a processor this kernel has no way back
    ours = sentences._in_blocks(parts(*plain), 0.3, *sentences.by_sentence(mask))
    torch.testing.assert_close(ours, by_mask(*plain, 0.3, mask), atol=1e-5, rtol=1e-5)


def test_blocks_between_sentences_are_passed_over_and_whole_ones_need_no_mask():
    numbers = rows_of_sentences(512, [[128, 384]])
    some, whole = blocks.tile_masks(numbers, numbers, causal=True)
    assert some[0, 0].int().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    assert whole[0, 0].int().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]]
    counts, order = blocks.tile_indices(some & ~whole)
    assert counts[0, 0].tolist() == [1, 1, 1, 1]
    assert order[0, 0, :, 0].tolist() == [0, 1, 2, 3]


def test_a_processor_and_other_masks_have_no_such_kernel():
    (q, k, _), mask = case(64, 64, causal=True)
    assert sentences.segment_kernel(q.bfloat16(), k.bfloat16(), mask) is None
    assert sentences.by_sentence(Keep(torch.ones(2, 64, dtype=torch.bool))) == (None, False)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [True, False])
def test_compiled_blocks_give_what_a_mask_gives(causal):
    tensors, mask = case(512, 512, causal, "cuda", torch.bfloat16, 64)

    def attend(q, k, v, scale):
        kernel = sentences.segment_kernel(q, k, mask)
        assert kernel is not None
        return kernel(parts(q, k, v), scale)

    ours = results(torch.compile(attend, fullgraph=True), tensors, 0.125, mask)
    theirs = results(lambda *args: by_mask(*args, mask), tensors, 0.125, mask)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)
