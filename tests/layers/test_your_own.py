"""Your own score, mask, positions, activation and norm in a model, without editing the package."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.inspection import capture
from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import ACTIVATIONS
from clearhead.layers.layout import Padded, Plain
from clearhead.layers.mask import Causal, Mask, distances
from clearhead.layers.norm import NORMS
from clearhead.layers.positions import POSITIONS, RELATIVE_POSITIONS, Relative
from clearhead.layers.scores import SCORES, ProductScore
from clearhead.models import GPT, MODELS, Translator, read_config

VOCABULARY = 23
TOKENS = torch.randint(4, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(0))
SMALL = {"width": 16, "ffn_width": 24, "attention": {"heads": 2}, "dropout": 0.0}


class Temperature(ProductScore):
    """A learned temperature for each head; a dot product after `prepare`, so it runs fused."""

    def __init__(self, heads: int, size: int, max_positions: int):
        super().__init__()
        self.scale = size**-0.5
        self.temperature = nn.Parameter(torch.linspace(0.5, 2, heads)[:, None, None])

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return queries / self.temperature, keys


class Distance(nn.Module):
    """Near keys score high; not a dot product, so it runs in explicit steps."""

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return -torch.cdist(queries, keys)


class EverySecond(Mask):
    """A query attends to positions at an even distance."""

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor:
        return (distances(queries, keys, device) % 2 == 0)[None, None]


class Sawtooth(nn.Module):
    """The position modulo 3, added to the embedding."""

    def forward(self, x: Tensor, positions: Tensor, lengths: Tensor | None = None) -> Tensor:
        return x + (positions % 3)[..., None].to(x.dtype)


class Recency(Relative):
    """A penalty on the logarithm of the distance, learned for each head."""

    def __init__(self, heads: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads, 1, 1))

    def bias(self, queries: int, keys: int) -> Tensor:
        return -self.weight * distances(queries, keys, self.weight.device).abs().add(1).log()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCORES, "temperature", Temperature)
    monkeypatch.setitem(SCORES, "distance", lambda heads, size, max_positions: Distance())
    monkeypatch.setitem(POSITIONS, "sawtooth", lambda width, max_positions: Sawtooth())
    monkeypatch.setitem(
        RELATIVE_POSITIONS, "recency", lambda heads, size, max_positions, base: Recency(heads)
    )
    monkeypatch.setitem(ACTIVATIONS, "softsign", F.softsign)
    monkeypatch.setitem(NORMS, "unit", lambda width, bias, epsilon: nn.Identity())


def make(kind: str, **changes: object) -> GPT | Translator:
    torch.manual_seed(0)
    layers = {"layers": 2, "init": "xavier"} if kind == "gpt" else {"encoder_layers": 1, "decoder_layers": 2}
    config = read_config({"kind": kind, **SMALL, **layers, **changes})
    return MODELS[kind](config, VOCABULARY).eval()


def logits(model: GPT | Translator) -> Tensor:
    if isinstance(model, GPT):
        return model(TOKENS)
    return model(TOKENS, Padded(torch.tensor([9, 5])), TOKENS[:, :6])


def stepped(model: GPT | Translator) -> Tensor:
    if isinstance(model, GPT):
        state = model.start(TOKENS[:, :0])
        return torch.stack([model.step(column, state) for column in TOKENS.T], dim=1)
    state = model.start(TOKENS, torch.tensor([9, 5]))
    return torch.stack([model.step(column, state) for column in TOKENS[:, :6].T], dim=1)


def attention(score: str) -> dict[str, object]:
    return {"heads": 2, "score": score}


OWN = {
    "product score": {"attention": attention("temperature")},
    "other score": {"attention": attention("distance")},
    "position": {"position": "sawtooth"},
    "relative position": {"position": "recency"},
    "activation": {"activation": "softsign"},
    "norm": {"norm": "unit"},
    "all": {"attention": attention("temperature"), "position": "recency", "activation": "softsign"},
}


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
@pytest.mark.parametrize("kind", ["gpt", "translator"])
def test_cached_steps_equal_one_full_pass(kind, own):
    model = make(kind, **own)
    torch.testing.assert_close(stepped(model), logits(model), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logits(model), logits(make(kind)))


@pytest.mark.parametrize("kind", ["gpt", "translator"])
def test_fused_equals_explicit_for_your_own_product_score(kind):
    model = make(kind, attention=attention("temperature"))

    def results() -> list[Tensor]:
        output = logits(model)
        gradients = torch.autograd.grad(output.square().sum(), list(model.parameters()), allow_unused=True)
        return [output, *(gradient for gradient in gradients if gradient is not None)]

    fused = results()
    for module in model.modules():
        if isinstance(module, Attention):
            module.tap = lambda name, tensor: tensor
    torch.testing.assert_close(fused, results(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gpt", "translator"])
@pytest.mark.parametrize("score", ["temperature", "distance"])
def test_capture_sees_your_own_score(kind, score):
    model = make(kind, attention=attention(score))
    with capture(model, ["decoder.*.attention.*"]) as trace:
        logits(model)
    path = "decoder.blocks.1.attention"
    own = model.get_submodule(f"{path}.score")
    expected = own(trace[f"{path}.queries"], trace[f"{path}.keys"])
    torch.testing.assert_close(trace[f"{path}.scores"], expected)


def test_attention_takes_your_own_objects():
    attend = Attention(16, AttentionConfig(heads=2), 32, Recency(2), score=Distance())
    queries, kv = attend.project_qkv(torch.randn(2, 5, 16))
    weights = (Distance()(queries, kv.keys) + Recency(2).bias(5, 5)).softmax(-1)
    expected = attend.output((weights @ kv.values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(attend(queries, kv, Mask()), expected)


def test_an_embedding_takes_your_own_position():
    embedding = Embedding(VOCABULARY, 16, Sawtooth(), 32, dropout=0.0)
    plain = embedding.weight[TOKENS] * 4
    torch.testing.assert_close(embedding(TOKENS), plain + (torch.arange(9) % 3)[None, :, None])


def test_a_layout_takes_your_own_mask():
    model = make("gpt", layers=1)
    changed = TOKENS.clone()
    changed[:, 3] = 0
    layout = Plain(Causal() & EverySecond())
    moved = (model(TOKENS, layout) - model(changed, layout)).abs().amax((0, 2)) > 1e-6
    assert moved.tolist() == [False, False, False, True, False, True, False, True, False]


def test_a_stack_applies_your_own_mask_to_every_pass_and_step():
    model = make("gpt")
    expected = model(TOKENS, Plain(Causal() & EverySecond()))
    model.decoder.mask = EverySecond()
    torch.testing.assert_close(model(TOKENS), expected)
    torch.testing.assert_close(stepped(model), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"attention": attention("cos")},
            "model.attention.score: 'cos' is not one of dot, scaled, general, additive, cosine, location, "
            "temperature, distance",
        ),
        (
            {"position": "saw"},
            "model.position: 'saw' is not one of sinusoidal, learned, none, order, fraction, sawtooth, "
            "rotary, alibi, recency",
        ),
        (
            {"activation": "tanh"},
            "model.activation: 'tanh' is not one of relu, gelu, gelu_tanh, squared_relu, swish, softsign, "
            "swiglu",
        ),
        ({"norm": "batch"}, "model.norm: 'batch' is not one of layer, rms, unit"),
    ],
)
def test_an_unknown_name_is_refused_with_all_choices(settings, message):
    with pytest.raises(SettingsError) as caught:
        make("gpt", **settings)
    assert str(caught.value) == message
