"""Steps in fixed rooms, as they are recorded on a GPU, give what steps in growing ones give."""

import pytest
import torch

from clearhead.models import GPT
from clearhead.models.cuda_graph import WAITING, CudaGraphGPT, supports_cuda_graph
from clearhead.models.gpt import GPTConfig

WORDS = 50
KINDS = {
    "learned": {},
    "rotary": {"position": "rotary", "norm": "rms", "activation": "swiglu"},
    "shared keys": {"attention": {"heads": 4, "kv_heads": 2, "qk_norm": "rms"}},
    "sinusoidal": {"position": "sinusoidal"},
}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def model_of(device: str, max_length: int = 64, **settings) -> GPT:
    torch.manual_seed(0)
    shape = {
        "width": 32,
        "ffn_width": 64,
        "layers": 2,
        "attention": {"heads": 4},
        "context_length": max_length,
    }
    return GPT(GPTConfig.model_validate(shape | settings), WORDS).to(device).eval()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@torch.no_grad()
def test_recorded_steps_are_plain_steps(device, settings):
    model = model_of(device, **settings)
    tokens = torch.randint(WORDS, (3, 12), device=device)
    lengths = torch.tensor([5, 4, 2], device=device)
    recorded = CudaGraphGPT(model)
    plain, fixed = (one.start(tokens[:, :5], lengths) for one in (model, recorded))
    for position in range(5, 12):
        if position == 8:
            # One row ends, another is doubled.
            chosen = torch.tensor([1, 0, 1, 1], device=device)
            plain.select(chosen)
            fixed.select(chosen)
        rows = torch.arange(4 if position >= 8 else 3, device=device) % 3
        one, other = model.step(tokens[rows, position], plain), recorded.step(tokens[rows, position], fixed)
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_a_text_of_one_word_moves_to_a_larger_room_when_it_grows(device):
    model = model_of(device, max_length=200)
    tokens = torch.randint(WORDS, (1, 150), device=device)
    recorded = CudaGraphGPT(model)
    plain, fixed = (one.start(tokens[:, :0]) for one in (model, recorded))
    for position in range(150):
        one, other = model.step(tokens[:, position], plain), recorded.step(tokens[:, position], fixed)
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_two_texts_at_a_time_do_not_share_a_seat_and_later_ones_take_it_over(device):
    model = model_of(device)
    recorded = CudaGraphGPT(model)
    texts = torch.randint(WORDS, (2, 10), device=device)
    states = [recorded.start(text[None, :3]) for text in texts]
    assert states[0].seat is not states[1].seat
    both = [[] for _ in texts]
    for position in range(3, 10):
        for text, state, logits in zip(texts, states, both, strict=True):
            logits.append(recorded.step(text[None, position], state))
    for text, logits in zip(texts, both, strict=True):
        torch.testing.assert_close(torch.cat(logits), model(text[None])[0, 3:], atol=1e-5, rtol=1e-5)
    seats = {id(state.seat) for state in states}
    del states, state
    assert id(recorded.start(texts[:1, :4]).seat) in seats


@torch.no_grad()
def test_few_seats_wait_for_the_next_text():
    recorded = CudaGraphGPT(model_of("cpu"))
    for rows in range(1, WAITING + 4):
        recorded.start(torch.zeros(rows, 3, dtype=torch.long))
    assert [seat.rows for seat in recorded._waiting] == list(range(4, WAITING + 4))


def test_models_that_count_from_the_last_place_are_not_recorded():
    assert supports_cuda_graph(GPTConfig(position="rotary"))
    assert not supports_cuda_graph(GPTConfig(position="alibi"))
    assert not supports_cuda_graph(GPTConfig(window=16))
