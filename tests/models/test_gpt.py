"""GPT agrees with itself: full pass and steps, alone and in a batch, one text and several per row."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config import parse_settings
from clearhead.errors import SettingsError, TextError
from clearhead.inspection import capture
from clearhead.layers.attention import Attention
from clearhead.layers.feedforward import ACTIVATIONS, GATED
from clearhead.layers.layout import Documents, Plain
from clearhead.layers.positions import POSITIONS, RELATIVE_POSITIONS
from clearhead.layers.scores import SCORES
from clearhead.models import GPT, MODELS, GPTConfig, read_config
from clearhead.models.gpt import PRESETS

VOCABULARY, CONTEXT_LENGTH = 23, 20
HEADS = {"heads": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    **{f"score {kind}": {"attention": {**HEADS, "score": kind}} for kind in SCORES},
    **{f"position {kind}": {"position": kind} for kind in (*POSITIONS, *RELATIVE_POSITIONS)},
    **{f"activation {kind}": {"activation": kind} for kind in (*ACTIVATIONS, *GATED)},
    "norm rms": {"norm": "rms", "norm_epsilon": 1e-3},
    "post-norm": {"norm_position": "post"},
    "no bias": {"bias": False},
    "untied": {"tied": "none"},
    "window": {"window": 3},
    "window with alibi": {"window": 3, "position": "alibi"},
    "qk norm": {"attention": {**HEADS, "qk_norm": "rms"}, "position": "rotary"},
    "shared kv": {"attention": {**HEADS, "kv_heads": 2}},
    "one kv head": {"attention": {**HEADS, "kv_heads": 1}, "position": "alibi"},
    "shared kv, additive": {"attention": {**HEADS, "kv_heads": 2, "score": "additive"}},
    "shared kv, general": {"attention": {**HEADS, "kv_heads": 2, "score": "general"}},
    "shared kv, cosine": {"attention": {**HEADS, "kv_heads": 2, "score": "cosine"}},
    "head size": {"attention": {"heads": 3, "head_size": 6}, "position": "rotary"},
    "llama": {
        "position": "rotary",
        "rotary_base": 500.0,
        "norm": "rms",
        "activation": "swiglu",
        "bias": False,
        "tied": "none",
        "attention": {**HEADS, "kv_heads": 2},
    },
    "modern": {
        "preset": "modern",
        "attention": {**HEADS, "kv_heads": 2, "qk_norm": "rms"},
        "window": 4,
        "init": "xavier",
    },
}
# Some settings do not concern padding, and the location score counts positions from the start of the row.
BATCHED = {
    name: one
    for name, one in SETTINGS.items()
    if name != "score location" and not name.startswith(("activation", "no bias", "untied"))
}


def make_gpt(**changes: object) -> GPT:
    torch.manual_seed(0)
    small = {
        "width": 16,
        "ffn_width": 24,
        "attention": HEADS,
        "layers": 2,
        "context_length": CONTEXT_LENGTH,
        **changes,
    }
    model = GPT(GPTConfig.model_validate({"init": "xavier", **small}), VOCABULARY).eval()
    torch.nn.init.normal_(model.embedding.weight)
    return model


def make_tokens(rows: int, positions: int, seed: int = 1) -> Tensor:
    return torch.randint(4, VOCABULARY, (rows, positions), generator=torch.Generator().manual_seed(seed))


def stepped(model: GPT, tokens: Tensor, state: Any) -> Tensor:
    return torch.stack([model.step(column, state) for column in tokens.T], dim=1)


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@torch.no_grad()
def test_cached_steps_equal_one_full_pass(settings):
    model, tokens = make_gpt(**settings), make_tokens(3, 12)
    whole = model(tokens)
    for prompt in (0, 1, 7):
        state = model.start(tokens[:, :prompt])
        assert_close(stepped(model, tokens[:, prompt:], state), whole[:, prompt:])


@pytest.mark.parametrize(
    "name", ["score location", "position learned", "window with alibi", "shared kv", "modern", "llama"]
)
@torch.no_grad()
def test_a_prompt_in_chunks_equals_the_whole_prompt(name, monkeypatch):
    model, tokens = make_gpt(**SETTINGS[name]), make_tokens(3, 12)
    state = model.start(tokens[:, :11])
    once = model.step(tokens[:, 11], state)
    monkeypatch.setattr("clearhead.models.causal.PREFILL", 4)
    state = model.start(tokens[:, :11], capacity=5)
    assert_close(model.step(tokens[:, 11], state), once)


@pytest.mark.parametrize("settings", BATCHED.values(), ids=BATCHED.keys())
@torch.no_grad()
def test_prompts_of_different_lengths_in_a_batch_equal_each_alone(settings, monkeypatch):
    monkeypatch.setattr("clearhead.models.causal.PREFILL", 3)
    model, tokens, lengths = make_gpt(**settings), make_tokens(4, 12), torch.tensor([7, 0, 4, 1])
    following = make_tokens(4, 5, seed=2)
    padded = tokens[:, :7].masked_fill(torch.arange(7) < (7 - lengths)[:, None], 0)
    batched = stepped(model, following, model.start(padded, lengths))
    for row, length in enumerate(lengths.tolist()):
        state = model.start(padded[row : row + 1, 7 - length :])
        assert_close(stepped(model, following[row : row + 1], state)[0], batched[row])


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 3, 0, 0], [3, 2, 1, 0], [1]])
@torch.no_grad()
def test_rows_selected_in_the_state_equal_these_rows_alone(rows):
    model, chosen = make_gpt(position="rotary"), torch.tensor(rows)
    tokens, lengths, following = make_tokens(4, 6), torch.tensor([6, 2, 5, 3]), make_tokens(4, 7, seed=2)
    state = model.start(tokens, lengths)
    stepped(model, following[:, :3], state)
    state.select(chosen)
    after = stepped(model, following[chosen, 3:], state)
    alone = stepped(model, following[chosen], model.start(tokens[chosen], lengths[chosen]))
    assert_close(after, alone[:, 3:])


@torch.no_grad()
def test_rows_use_the_whole_context_once_longer_ones_are_dropped():
    model, tokens = make_gpt(), make_tokens(2, CONTEXT_LENGTH)
    state = model.start(tokens[:, :15], torch.tensor([15, 10]))
    state.select(torch.tensor([1]))
    following = make_tokens(1, CONTEXT_LENGTH - 10, seed=2)
    last = stepped(model, following, state)[:, -1]
    assert_close(last, model(torch.cat([tokens[1:, 5:15], following], 1))[:, -1])
    with pytest.raises(TextError, match="the text has 21 tokens, but the model takes at most 20"):
        model.step(following[:, 0], state)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@torch.no_grad()
def test_capturing_does_not_change_the_output(settings):
    model, tokens = make_gpt(**settings), make_tokens(3, 12)
    before = model(tokens)
    with capture(model, ["decoder.blocks.*.attention.weights", "*.keys"]) as trace:
        assert_close(model(tokens), before)
    heads = model.config.attention.heads
    assert trace["decoder.blocks.1.attention.weights"].shape == (3, heads, 12, 12)
    assert trace["decoder.blocks.0.attention.keys"].shape == (3, heads, 12, model.config.head_size)


PACKED = {
    name: one
    for name, one in SETTINGS.items()
    if GPTConfig.model_validate(one).packs and not name.startswith(("activation", "no", "untied"))
}


@pytest.mark.parametrize("settings", PACKED.values(), ids=PACKED.keys())
def test_documents_in_one_row_equal_each_alone_with_their_gradients(settings):
    model, tokens = make_gpt(**settings), make_tokens(2, 12)
    cuts = [(0, 5), (5, 6), (6, 10)]
    numbers, positions = torch.zeros(2, 12, dtype=torch.long), torch.zeros(2, 12, dtype=torch.long)
    for number, (first, end) in enumerate(cuts, start=1):
        numbers[:, first:end], positions[:, first:end] = number, torch.arange(end - first)
    batched = model(tokens, Documents(numbers, positions))
    alone = torch.cat([model(tokens[:, first:end]) for first, end in cuts], 1)
    assert_close(batched[:, :10], alone)
    parameters = list(model.parameters())
    weights = torch.randn(alone.shape)
    ours = torch.autograd.grad((batched[:, :10] * weights).sum(), parameters, allow_unused=True)
    theirs = torch.autograd.grad((alone * weights).sum(), parameters, allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)


@torch.no_grad()
def test_a_token_sees_neither_later_tokens_nor_those_outside_its_window():
    model, tokens = make_gpt(window=3, layers=1), make_tokens(1, 12)
    before = model(tokens)
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % VOCABULARY
    moved = (model(changed) - before).abs().amax(-1)[0] > 1e-4
    assert moved.nonzero().flatten().tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("preset", "millions", "vocabulary"),
    [
        ("gpt2", 124.4, 50257),
        ("gpt2-medium", 354.8, 50257),
        ("gpt2-large", 774.0, 50257),
        ("gpt2-xl", 1557.6, 50257),
        ("shakespeare", 10.65, 69),
    ],
)
def test_the_presets_have_their_sizes(preset, millions, vocabulary):
    with torch.device("meta"):
        model = GPT(parse_settings(GPTConfig, {"preset": preset}), vocabulary)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.05)


def test_tensor_sizes_are_those_of_the_largest_tensors():
    model = make_gpt(attention={"heads": 3, "head_size": 6})
    names = (
        "embedding.weight",
        "decoder.blocks.0.feedforward.inner.weight",
        "decoder.blocks.0.attention.output.weight",
        "embedding.position.weight",
    )
    sizes = [model.get_parameter(name).numel() for name in names]
    assert list(model.config.tensor_sizes(VOCABULARY).values()) == sizes


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_model(preset):
    model = GPT(parse_settings(GPTConfig, {"preset": preset, "layers": 1}), 70)
    assert model(make_tokens(1, 8)).shape == (1, 8, 70)


def test_zero_init_leaves_the_residual_stream_unchanged():
    model = make_gpt(init="zero", position="rotary")
    tokens = make_tokens(2, 5)
    assert torch.equal(model.states(tokens, Plain()), model.decoder.norm(model.embedding(tokens)))


def test_gpt2_init_scales_outputs_by_depth():
    model = GPT(GPTConfig(width=96, layers=8, context_length=64), 100)
    attention = model.decoder.blocks[0].attention
    assert isinstance(attention, Attention)
    assert attention.project.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert attention.output.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)


def test_tied_matrices_are_shared():
    tied, untied = make_gpt(), make_gpt(tied="none")
    assert tied.readout_weight is tied.embedding.weight
    assert untied.readout_weight is not untied.embedding.weight


@pytest.mark.parametrize(
    "settings", [SETTINGS["modern"], SETTINGS["llama"], {}], ids=["modern", "llama", "gpt2"]
)
def test_gradients_flow_into_every_parameter(settings):
    model, tokens = make_gpt(**settings).train(), make_tokens(3, 12)
    logits = model(tokens[:, :-1])
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "bert"}, f"model.kind: 'bert' is not one of {', '.join(MODELS)}"),
        (
            {"kind": "gpt", "attention": {"heads": 12, "kv_heads": 5}},
            "model: attention.heads 12 is not divisible by attention.kv_heads 5",
        ),
        ({"kind": "gpt", "width": 770}, "model: width 770 is not divisible by attention.heads 12"),
    ],
)
def test_invalid_settings_are_reported(values, message):
    with pytest.raises(SettingsError) as caught:
        read_config(values)
    assert str(caught.value) == message


def test_texts_longer_than_the_context_are_refused():
    model = make_gpt()
    with pytest.raises(TextError, match="the text has 21 tokens, but the model takes at most 20"):
        model(make_tokens(1, 21))
    with pytest.raises(TextError, match="the text has 21 tokens, but the model takes at most 20"):
        model.start(make_tokens(1, 21))
