"""The kernel that advances a beam search equals the search in torch."""

import pytest
import torch

from clearhead.decoding.slots import SlotSearch
from clearhead.models import Translator, TranslatorConfig
from clearhead.models.slots import Slots

SLOTS, CAPACITY, END = 3, 70, 3


def searches(device: str, beam: int) -> list[SlotSearch]:
    """Two searches of the same sentences; the model only makes the caches."""
    shape = {"width": 8, "ffn_width": 8, "encoder_layers": 1, "decoder_layers": 1}
    model = Translator(TranslatorConfig.model_validate({**shape, "attention": {"heads": 1}}), 10).to(device)
    found = []
    for _ in range(2):
        search = SlotSearch(lambda tokens, state: tokens, Slots(model, SLOTS, beam, CAPACITY), 1, END, 0.6)  # pyright: ignore
        search.fill(torch.arange(SLOTS, device=device), torch.tensor([4, 68, 30], device=device))
        found.append(search)
    return found


def results(search: SlotSearch) -> list[torch.Tensor]:
    best, state = search.best, search.state
    rows = torch.arange(state.capacity, device=search.limits.device) < state.lengths[:, None] - 1
    written = torch.arange(state.capacity, device=search.limits.device) < best.length[:, None]
    running = search.running.repeat_interleave(state.beam)
    return [
        search.running, search.broken, best.length, best.complete,
        torch.where(best.length > 0, best.score, 0.0), torch.where(best.length > 0, best.sum_log_prob, 0.0),
        torch.where(written, best.tokens, 0), torch.where(written, best.log_probs, 0.0),
        state.lengths, torch.where(running, search.last, 0), search.sums[search.running],
        torch.where(running[:, None] & rows, search.tokens, 0),
        torch.where(running[:, None] & rows, search.log_probs, 0.0),
        torch.where(running[:, None] & rows, state.table, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("vocabulary", [40, 300, 5000])
@pytest.mark.parametrize("beam", [1, 3, 4])
@torch.no_grad()
def test_the_kernel_advances_as_torch_does(device, vocabulary, beam):
    from clearhead.accel.kernels.beam import advance

    torch.manual_seed(0)
    mine, theirs = searches(device, beam)
    steps = 0
    while bool(theirs.running.any()) and steps < 70:
        logits = 3 * torch.randn(SLOTS * beam, vocabulary, device=device)
        # Ends are rare at first and likely later.
        logits[:, END] += (steps - 20) / 5
        logits[0, 7] = -torch.inf
        advance(logits, mine)
        theirs._advance_by(logits)
        for one, other in zip(results(mine), results(theirs), strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
        steps += 1
    assert steps > 5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter
@torch.no_grad()
def test_a_nan_among_the_logits_is_not_hidden(device):
    from clearhead.accel.kernels.beam import advance

    search, _ = searches(device, 2)
    logits = torch.randn(SLOTS * 2, 2000, device=device)
    logits[2, 1500] = torch.nan
    advance(logits, search)
    assert search.broken.tolist() == [False, True, False]
    assert search.running.tolist() == [True, False, True]


def test_a_vocabulary_can_be_too_large():
    pytest.importorskip("triton")
    from clearhead.accel.kernels.beam import fits

    assert fits(32_000, 5)
    assert fits(250_000, 8)
    assert not fits(250_000, 16)
