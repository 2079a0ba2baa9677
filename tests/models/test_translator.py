"""The translator agrees with itself: full pass and steps, alone and in a batch, tapped or not."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config import Settings, parse_settings
from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.data.store import TokenSequences
from clearhead.errors import SettingsError, TextError
from clearhead.layers.attention import Attention
from clearhead.layers.layout import Packed, Padded
from clearhead.layers.positions import POSITIONS as ABSOLUTE
from clearhead.layers.positions import RELATIVE_POSITIONS
from clearhead.layers.scores import SCORES
from clearhead.models.translator import Translator, TranslatorConfig

POSITIONS = [*ABSOLUTE, *RELATIVE_POSITIONS]
VOCABULARY, SOURCE, TARGET = 23, 7, 7
LENGTHS = torch.tensor([7, 3, 5, 1])


class Recipe(Settings):
    model: TranslatorConfig = TranslatorConfig()


def make_translator(score: str = "scaled", **changes: object) -> Translator:
    torch.manual_seed(0)
    small = {
        "width": 16,
        "ffn_width": 24,
        "attention": {"heads": 2, "score": score},
        "encoder_layers": 1,
        "decoder_layers": 2,
        "max_length": 20,
        **changes,
    }
    return Translator(TranslatorConfig.model_validate(small), VOCABULARY).eval()


def make_tokens(rows: int, positions: int, seed: int = 1) -> Tensor:
    return torch.randint(4, VOCABULARY, (rows, positions), generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def source() -> Tensor:
    tokens = make_tokens(len(LENGTHS), SOURCE)
    return tokens.masked_fill(torch.arange(SOURCE) >= LENGTHS[:, None], 0)


@pytest.fixture
def target() -> Tensor:
    return make_tokens(len(LENGTHS), TARGET, seed=2)


def stepped(model: Translator, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    state = model.start(source, lengths)
    return torch.stack([model.step(tokens, state) for tokens in target.T], dim=1)


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_cached_steps_equal_one_full_pass(score, position, norm_position, source, target):
    model = make_translator(score, position=position, norm_position=norm_position)
    assert_close(stepped(model, source, LENGTHS, target), model(source, Padded(LENGTHS), target))


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 3, 0, 0], [3, 2, 1, 0], [2]])
@pytest.mark.parametrize("score", ["scaled", "additive", "location"])
@torch.no_grad()
def test_rows_selected_in_the_state_equal_these_rows_alone(score, rows, source, target):
    model = make_translator(score, position="rotary")
    chosen = torch.tensor(rows)
    state = model.start(source, LENGTHS)
    for tokens in target.T[:4]:
        model.step(tokens, state)
    state.select(chosen)
    after = torch.stack([model.step(tokens, state) for tokens in target[chosen].T[4:]], dim=1)
    assert_close(after, stepped(model, source[chosen], LENGTHS[chosen], target[chosen])[:, 4:])


@torch.no_grad()
def test_beams_that_swap_within_a_sentence_do_not_copy_its_source(source, target):
    model = make_translator()
    state = model.start(source, LENGTHS)
    state.select(torch.tensor([0, 0, 1, 1]))
    model.step(target[:, 0], state)
    before = state.source
    state.select(torch.tensor([1, 1, 2, 3]))
    assert state.source is before
    after = model.step(target[:, 1], state)
    first, second = target[torch.tensor([1, 1, 2, 3]), 0], target[:, 1]
    sentences = torch.tensor([0, 0, 1, 1])
    alone = stepped(model, source[sentences], LENGTHS[sentences], torch.stack([first, second], dim=1))
    assert_close(after, alone[:, 1])


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_a_sentence_alone_equals_the_same_sentence_in_a_padded_batch(score, position, source, target):
    model = make_translator(score, position=position)
    batched = model(source, Padded(LENGTHS), target)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(source[row : row + 1, :length], Padded(LENGTHS[row : row + 1]), target[row : row + 1])
        assert_close(alone[0], batched[row])


@torch.no_grad()
def test_target_padding_does_not_change_earlier_positions(source, target):
    model = make_translator()
    padded = torch.cat([target, torch.zeros_like(target)], dim=1)
    assert_close(model(source, Padded(LENGTHS), padded)[:, :TARGET], model(source, Padded(LENGTHS), target))


@torch.no_grad()
def test_a_token_does_not_see_later_tokens(source, target):
    model = make_translator()
    before = model(source, Padded(LENGTHS), target)
    target[:, 5] = (target[:, 5] + 1) % VOCABULARY
    after = model(source, Padded(LENGTHS), target)
    assert_close(after[:, :5], before[:, :5])
    assert not torch.allclose(after[:, 5:], before[:, 5:], atol=1e-3)


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_a_tap_does_not_change_the_output(score, source, target):
    model = make_translator(score, position="alibi")
    before = model(source, Padded(LENGTHS), target)
    attentions = [part for part in model.modules() if isinstance(part, Attention)]
    assert len(attentions) == 5
    for attention in attentions:
        attention.tap = lambda name, tensor: tensor
    assert_close(model(source, Padded(LENGTHS), target), before)
    for attention in attentions:
        attention.tap = None
    assert torch.equal(model(source, Padded(LENGTHS), target), before)


@pytest.mark.parametrize(
    ("score", "activation", "norm_position"),
    [
        ("dot", "relu", "post"),
        ("scaled", "relu", "pre"),
        ("general", "gelu", "post"),
        ("additive", "swiglu", "pre"),
        ("cosine", "squared_relu", "post"),
        ("location", "swiglu", "post"),
    ],
)
def test_gradients_flow_into_every_parameter(score, activation, norm_position, source, target):
    settings = {
        "activation": activation,
        "norm_position": norm_position,
        "position": "learned",
        "tied": "none",
    }
    model = make_translator(score, **settings).train()
    logits = model(source, Padded(LENGTHS), target[:, :-1])
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.count_nonzero() > 0, name


@pytest.mark.parametrize(("tied", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_matrices_are_shared(tied, matrices, source, target):
    model = make_translator(tied=tied)
    weights = {model.source_embedding.weight, model.target_embedding.weight, model.readout_weight}
    assert len(weights) == matrices
    others = sum(p.numel() for p in model.parameters()) - matrices * VOCABULARY * 16
    assert others == sum(p.numel() for p in make_translator().parameters()) - VOCABULARY * 16
    assert_close(model(source, Padded(LENGTHS), target), stepped(model, source, LENGTHS, target))


@torch.no_grad()
def test_logits_are_the_states_times_the_readout_matrix(source, target):
    model = make_translator(tied="none")
    states = model.states(source, Padded(LENGTHS), target)
    assert_close(model(source, Padded(LENGTHS), target), states @ model.readout_weight.T)


def test_a_state_dict_loads_into_another_model(source, target):
    model, other = make_translator(), make_translator()
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(source, Padded(LENGTHS), target), other(source, Padded(LENGTHS), target))


@pytest.mark.parametrize(("preset", "millions"), [("base", 65), ("big", 213)])
def test_the_papers_models_have_the_papers_sizes(preset, millions):
    """Vaswani et al. 2017, table 3; a shared vocabulary of about 37000."""
    with torch.device("meta"):
        model = Translator(parse_settings(TranslatorConfig, {"preset": preset}), vocabulary=37000)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.04)


def test_settings_beside_a_preset_take_precedence():
    config = parse_settings(
        TranslatorConfig, {"preset": "tiny", "dropout": 0.1, "attention": {"score": "dot"}}
    )
    assert (config.width, config.dropout) == (128, 0.1)
    assert (config.attention.heads, config.attention.score) == (4, "dot")


def test_an_unknown_preset_is_refused_with_the_choices():
    with pytest.raises(SettingsError) as caught:
        parse_settings(Recipe, {"model": {"preset": "huge"}})
    assert caught.value.problems == ("model: preset 'huge' is not one of tiny, small, base, big",)


def test_a_width_not_divisible_by_the_heads_is_refused():
    with pytest.raises(SettingsError) as caught:
        parse_settings(Recipe, {"model": {"width": 100}})
    assert caught.value.problems == ("model: width 100 is not divisible by attention.heads 8",)


def test_texts_beyond_max_length_are_refused(source):
    model = make_translator()
    with pytest.raises(TextError, match="the text has 21 tokens, but the model takes at most 20; shorten"):
        model.start(make_tokens(1, 21), torch.tensor([21]))
    state = model.start(source, LENGTHS)
    *tokens, last = make_tokens(len(LENGTHS), 21).T
    for token in tokens:
        model.step(token, state)
    with pytest.raises(TextError, match="the text has 21 tokens"):
        model.step(last, state)


def test_texts_of_max_tokens_are_accepted_and_longer_ones_refused():
    settings = {"width": 8, "ffn_width": 8, "attention": {"heads": 1}, "max_length": 6}
    config = TranslatorConfig.model_validate(settings | {"encoder_layers": 1, "decoder_layers": 1})
    model = Translator(config, vocabulary=20)
    fitting = PairBatch.of([[7] * config.max_tokens], [[8] * config.max_tokens])
    assert model(fitting.source, Padded(fitting.source_lengths), fitting.inputs).shape == (1, 6, 20)
    for more in ([6, 5], [5, 6]):
        batch = PairBatch.of([[7] * more[0]], [[8] * more[1]])
        with pytest.raises(TextError, match="the text has 7 tokens, but the model takes at most 6"):
            model(batch.source, Padded(batch.source_lengths), batch.inputs)


def packed(pairs: list[tuple[list[int], list[int]]], rows: list[int], positions: int) -> PackedBatch:
    sources, targets = (TokenSequences.of([pair[side] for pair in pairs]) for side in (0, 1))
    return PackedBatch.pack(sources, targets, np.array(rows), max(rows) + 2, positions)


@pytest.mark.parametrize("position", [kind for kind in POSITIONS if kind != "fraction"])
@pytest.mark.parametrize("tapped", [False, True])
def test_packed_rows_have_the_loss_and_gradients_of_padded_ones(position: str, tapped: bool):
    model = make_translator(position=position)
    if tapped:
        for module in model.modules():
            if isinstance(module, Attention):
                module.tap = lambda name, tensor: tensor
    tokens = make_tokens(2, 60).tolist()
    cuts = [(0, 5, 3), (5, 6, 9), (6, 13, 8), (13, 16, 4)]
    pairs = [(tokens[0][a:b], tokens[1][a : a + n]) for a, b, n in cuts]
    padded = PairBatch.of(*map(list, zip(*pairs, strict=True)))
    batch = packed(pairs, [0, 0, 1, 1], 20)
    layout = Packed(
        batch.source_segments, batch.source_positions, batch.target_segments, batch.target_positions
    )

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten().long(), ignore_index=0, reduction="sum")

    one = loss(model(padded.source, Padded(padded.source_lengths), padded.inputs), padded.labels)
    two = loss(model(batch.source, layout, batch.inputs), batch.labels)
    torch.testing.assert_close(one, two)
    parameters = list(model.parameters())
    for first, second in zip(*(torch.autograd.grad(x, parameters) for x in (one, two)), strict=True):
        torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_readout_bias_is_added_to_the_logits(source, target):
    plain, model = make_translator(), make_translator(readout_bias="learned")
    assert_close(model(source, Padded(LENGTHS), target), plain(source, Padded(LENGTHS), target))
    assert model.readout_bias is not None
    model.readout_bias.copy_(torch.arange(VOCABULARY) / VOCABULARY)
    expected = plain(source, Padded(LENGTHS), target) + model.readout_bias
    assert_close(model(source, Padded(LENGTHS), target), expected)
    assert_close(stepped(model, source, LENGTHS, target), expected)
