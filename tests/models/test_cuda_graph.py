"""Steps over static caches, as CUDA graphs need them, equal steps over growing caches."""

import weakref

import pytest
import torch

from clearhead.models import GPT
from clearhead.models.cuda_graph import MAX_IDLE, CudaGraphGPT
from clearhead.models.gpt import GPTConfig

VOCABULARY = 50
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
    return GPT(GPTConfig.model_validate(shape | settings), VOCABULARY).to(device).eval()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@torch.no_grad()
def test_graphed_steps_equal_plain_steps(device, settings):
    model = model_of(device, **settings)
    tokens = torch.randint(VOCABULARY, (3, 12), device=device)
    lengths = torch.tensor([5, 4, 2], device=device)
    graphed = CudaGraphGPT(model)
    plain, fixed = (one.start(tokens[:, :5], lengths) for one in (model, graphed))
    for position in range(5, 12):
        if position == 8:
            # One row ends, another is repeated.
            selected = torch.tensor([1, 0, 1, 1], device=device)
            plain.select(selected)
            fixed.select(selected)
        rows = torch.arange(4 if position >= 8 else 3, device=device) % 3
        one, other = model.step(tokens[rows, position], plain), graphed.step(tokens[rows, position], fixed)
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_a_growing_text_moves_to_a_larger_slot(device):
    model = model_of(device, max_length=200)
    tokens = torch.randint(VOCABULARY, (1, 150), device=device)
    graphed = CudaGraphGPT(model)
    plain, fixed = (one.start(tokens[:, :0]) for one in (model, graphed))
    for position in range(150):
        one, other = model.step(tokens[:, position], plain), graphed.step(tokens[:, position], fixed)
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_concurrent_texts_have_their_own_slots_and_later_ones_reuse_them(device):
    model = model_of(device)
    graphed = CudaGraphGPT(model)
    texts = torch.randint(VOCABULARY, (2, 10), device=device)
    states = [graphed.start(text[None, :3]) for text in texts]
    assert states[0].slot is not states[1].slot
    both = [[] for _ in texts]
    for position in range(3, 10):
        for text, state, logits in zip(texts, states, both, strict=True):
            logits.append(graphed.step(text[None, position], state))
    for text, logits in zip(texts, both, strict=True):
        torch.testing.assert_close(torch.cat(logits), model(text[None])[0, 3:], atol=1e-5, rtol=1e-5)
    slots = {id(state.slot) for state in states}
    del states, state
    assert id(graphed.start(texts[:1, :4]).slot) in slots


@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_slots_are_freed_with_their_engine(device, without_garbage_collection):
    graphed = CudaGraphGPT(model_of(device))
    tokens = torch.zeros(1, 3, dtype=torch.long, device=device)
    state = graphed.start(tokens)
    graphed.step(tokens[:, 0], state)
    slot = weakref.ref(state.slot)
    del state, graphed
    assert slot() is None


@torch.no_grad()
def test_few_idle_slots_are_kept():
    graphed = CudaGraphGPT(model_of("cpu"))
    for rows in range(1, MAX_IDLE + 4):
        graphed.start(torch.zeros(rows, 3, dtype=torch.long))
    assert [slot.rows for slot in graphed._idle] == list(range(4, MAX_IDLE + 4))
