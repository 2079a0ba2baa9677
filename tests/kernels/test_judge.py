"""The kernel of the plain criterion finds what its formula finds."""

import pytest
import torch

from clearhead.training.criterion import Criterion


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("words", [100, 5000])
def test_rows_in_registers_have_the_losses_and_slopes_of_the_formula(device, words, kind):
    from clearhead.kernels.judge import judged

    torch.manual_seed(0)
    logits = (3 * torch.randn(9, words, device=device)).to(kind)
    labels = torch.tensor([1, 2, 0, words - 1, 7, 0, 5, 98, 3], device=device)
    losses, (slopes,) = Criterion(smoothing=0.1).fused([logits], labels)
    torch.testing.assert_close(judged(logits, labels, 0.1, ignore=0), losses)
    torch.testing.assert_close(logits, slopes, rtol=1e-2 if kind == torch.bfloat16 else 1e-5, atol=1e-6)
