"""The cross-entropy kernel equals the formula of the criterion."""

import pytest
import torch

from clearhead.training.criterion import Criterion

# Of the first pass over a row whose maximum comes late, which is then read again.
pytestmark = pytest.mark.filterwarnings("ignore:overflow")


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tiles", [0.0125, 0.6, 1.0, 2.0, 2.3])
def test_rows_have_the_losses_and_gradients_of_the_formula(device, tiles, label_smoothing, kind):
    logits = 3 * torch.randn(9, tokens_in(tiles), generator=torch.Generator().manual_seed(0))
    compare(device, logits.to(kind), label_smoothing)


def test_logits_far_above_earlier_ones_do_not_overflow(device):
    logits = torch.zeros(9, tokens_in(2.3))
    logits[1, tokens_in(1.5)], logits[2, -1], logits[3, -1] = 300.0, 1000.0, 70.0
    # For x around 100, float32 leaves e^x five digits.
    compare(device, logits, label_smoothing=0.0, atol=1e-5)


def test_impossible_tokens_take_no_probability(device):
    from clearhead.accel.kernels.cross_entropy import cross_entropy

    none, some = tokens_in(1.0), 904
    logits = torch.zeros(1, none + some, device=device)
    logits[0, :none] = float("-inf")
    loss = cross_entropy(logits, torch.tensor([none + 1], device=device), 0.0, ignore_index=0)
    torch.testing.assert_close(loss, torch.full((1,), float(some), device=device).log())
    torch.testing.assert_close(logits[0, none - 1 : none + 1], torch.tensor([0.0, 1 / some], device=device))


def tokens_in(tiles: float) -> int:
    """The number of tokens in a number of tiles; the kernel takes the maximum of the first."""
    from clearhead.accel.kernels.cross_entropy import TILE

    return int(tiles * TILE)


def compare(device: str, logits: torch.Tensor, label_smoothing: float, atol: float = 1e-6) -> None:
    from clearhead.accel.kernels.cross_entropy import cross_entropy

    logits, tokens = logits.to(device), logits.shape[1]
    labels = torch.tensor([1, 2, 0, tokens - 1, 7, 0, 5, 98, 3], device=device)
    losses, (gradients,) = Criterion(label_smoothing=label_smoothing).fused([logits], labels)
    torch.testing.assert_close(cross_entropy(logits, labels, label_smoothing, ignore_index=0), losses)
    rtol = 1e-2 if logits.dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(logits, gradients, rtol=rtol, atol=atol)


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
def test_a_tensor_is_scaled_by_a_number_on_the_device(device, kind):
    from clearhead.accel.kernels.cross_entropy import scale

    x = torch.randn(3, 5000, device=device, dtype=torch.float64).to(kind)
    factor = torch.tensor(0.3, device=device, dtype=torch.promote_types(kind, torch.float32))
    assert torch.equal(scale(x, factor), (x * factor[None]).to(kind))
