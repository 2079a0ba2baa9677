"""The recurrent encoder-decoder agrees with itself: full pass and steps, alone or batched, tapped or not."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config import parse_settings
from clearhead.data.batch import PairBatch
from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.inspection import capture, intervene
from clearhead.inspection.edits import SetRow
from clearhead.layers.attention import Attention
from clearhead.layers.layout import Packed, Padded
from clearhead.layers.recurrent import CELLS, RecurrentLayer
from clearhead.layers.scores import SCORES
from clearhead.models.seq2seq import PRESETS, Seq2Seq, Seq2SeqConfig

VOCABULARY, SOURCE, TARGET, WIDTH = 23, 7, 6, 8
LENGTHS = torch.tensor([7, 3, 5, 1])
KINDS = {
    "before": {"attend": "before"},
    "before, deep": {"attend": "before", "layers": 2},
    "after": {"attend": "after", "layers": 2},
    "after, fed": {"attend": "after", "layers": 2, "input_feeding": True},
    "fixed, start": {"attend": "none"},
    "fixed, steps": {"attend": "none", "fixed_vector": "steps", "layers": 2},
    "fixed, both": {"attend": "none", "fixed_vector": "both"},
}
READINGS = {
    "both": {"bidirectional": True},
    "forward": {"bidirectional": False},
    "reversed": {"bidirectional": False, "reverse": True},
}

# Every kind with every cell, and each of these with another way of reading.
COMBINATIONS = [
    (kind, cell, list(READINGS)[(row + column) % 3])
    for row, kind in enumerate(KINDS)
    for column, cell in enumerate(CELLS)
]


def make_model(**changes: object) -> Seq2Seq:
    torch.manual_seed(0)
    small = {"width": WIDTH, "max_length": 20, **changes}
    model = Seq2Seq(Seq2SeqConfig.model_validate(small), VOCABULARY).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def make_tokens(rows: int, positions: int, seed: int = 1) -> Tensor:
    return torch.randint(4, VOCABULARY, (rows, positions), generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def source() -> Tensor:
    tokens = make_tokens(len(LENGTHS), SOURCE)
    return tokens.masked_fill(torch.arange(SOURCE) >= LENGTHS[:, None], 0)


@pytest.fixture
def target() -> Tensor:
    return make_tokens(len(LENGTHS), TARGET, seed=2)


def stepped(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    state = model.start(source, lengths)
    return torch.stack([model.step(tokens, state) for tokens in target.T], dim=1)


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("kind", "cell", "reading"), COMBINATIONS)
@torch.no_grad()
def test_cached_steps_equal_one_full_pass(kind, cell, reading, source, target):
    model = make_model(cell=cell, **KINDS[kind], **READINGS[reading])
    assert_close(stepped(model, source, LENGTHS, target), model(source, Padded(LENGTHS), target))


@pytest.mark.parametrize("attend", ["before", "after"])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_every_score_works_with_one_head_and_with_two(score, attend, source, target):
    for heads in (1, 2):
        model = make_model(attend=attend, attention={"score": score, "heads": heads})
        assert_close(stepped(model, source, LENGTHS, target), model(source, Padded(LENGTHS), target))


@pytest.mark.parametrize("rows", [[1, 1, 3, 0, 0], [2]])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_rows_selected_in_the_state_equal_these_rows_alone(kind, rows, source, target):
    model, chosen = make_model(cell="lstm", **KINDS[kind]), torch.tensor(rows)
    state = model.start(source, LENGTHS)
    for tokens in target.T[:3]:
        model.step(tokens, state)
    state.select(chosen)
    after = torch.stack([model.step(tokens, state) for tokens in target[chosen].T[3:]], dim=1)
    assert_close(after, stepped(model, source[chosen], LENGTHS[chosen], target[chosen])[:, 3:])


@torch.no_grad()
def test_beams_that_swap_within_a_sentence_do_not_copy_its_source(source, target):
    model = make_model()
    state = model.start(source, LENGTHS)
    state.select(torch.tensor([0, 0, 1, 1]))
    model.step(target[:, 0], state)
    before = state.source
    state.select(torch.tensor([1, 1, 2, 3]))
    assert state.source is before


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_sentence_alone_equals_the_same_sentence_in_a_padded_batch(kind, reading, source, target):
    model = make_model(cell="lstm", **KINDS[kind], **READINGS[reading])
    batched = model(source, Padded(LENGTHS), target)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(source[row : row + 1, :length], Padded(LENGTHS[row : row + 1]), target[row : row + 1])
        assert_close(alone[0], batched[row])


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_token_sees_itself_and_earlier_tokens_only(kind, source, target):
    model = make_model(**KINDS[kind])
    before = model(source, Padded(LENGTHS), target)
    target[:, 4] = (target[:, 4] + 1) % VOCABULARY
    after = model(source, Padded(LENGTHS), target)
    assert_close(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4], before[:, 4], atol=1e-3)
    assert not torch.allclose(after[:, 5], before[:, 5], atol=1e-3)


@pytest.mark.parametrize(("kind", "cell", "reading"), COMBINATIONS)
def test_a_tap_changes_neither_outputs_nor_gradients(kind, cell, reading, source, target):
    model = make_model(cell=cell, **KINDS[kind], **READINGS[reading])

    def gradients() -> list[Tensor]:
        loss = F.cross_entropy(
            model(source, Padded(LENGTHS), target)[:, :-1].flatten(0, 1), target[:, 1:].flatten()
        )
        return [loss, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)]

    plain = gradients()
    for part in model.modules():
        if isinstance(part, Attention | RecurrentLayer):
            part.tap = lambda name, tensor: tensor
    for one, other in zip(plain, gradients(), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(("kind", "cell", "reading"), COMBINATIONS)
def test_gradients_flow_into_every_parameter(kind, cell, reading, source, target):
    model = make_model(cell=cell, tied="none", **KINDS[kind], **READINGS[reading]).train()
    logits = model(source, Padded(LENGTHS), target[:, :-1])
    F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.count_nonzero() > 0, name


@pytest.mark.parametrize(("tied", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_matrices_are_shared(tied, matrices):
    model = make_model(tied=tied)
    assert (
        len({model.source_embedding.weight, model.target_embedding.weight, model.readout_weight}) == matrices
    )


@pytest.mark.parametrize("attend", ["before", "after"])
@torch.no_grad()
def test_a_capture_holds_whole_sequences_even_where_the_decoder_runs_step_by_step(attend, source, target):
    model = make_model(cell="lstm", attend=attend, attention={"heads": 2}, input_feeding=attend == "after")
    with capture(model) as trace:
        logits = model(source, Padded(LENGTHS), target)
    rows = len(LENGTHS)
    assert trace["attention.weights"].shape == (rows, 2, TARGET, SOURCE)
    assert_close(trace["attention.weights"].sum(-1), torch.ones(rows, 2, TARGET))
    assert trace["attention.weights"][1, :, :, 3:].count_nonzero() == 0
    assert trace["attention.keys"].shape == (rows, 2, SOURCE, WIDTH // 2)
    assert trace["attention.added"].shape == (rows, TARGET, WIDTH)
    assert trace["encoder.layers.0.forget_gate"].shape == (rows, 2, SOURCE, WIDTH)
    assert trace["decoder.layers.0.forget_gate"].shape == (rows, 1, TARGET, WIDTH)
    assert trace["target_embedding.stream"].shape == (rows, TARGET, WIDTH)
    assert_close(trace["logits"], logits)
    # Each row of weights is that of the step that a search would take.
    state = model.start(source, LENGTHS)
    for position, tokens in enumerate(target.T):
        with capture(model, ["attention.weights", "decoder.layers.0.cell"]) as step:
            model.step(tokens, state)
        assert_close(step["attention.weights"][:, :, 0], trace["attention.weights"][:, :, position])
        assert_close(step["decoder.layers.0.cell"][:, :, 0], trace["decoder.layers.0.cell"][:, :, position])


@pytest.mark.parametrize("attend", ["before", "after"])
@torch.no_grad()
def test_an_edit_changes_a_search_exactly_as_a_full_pass(attend, source, target):
    model = make_model(attend=attend, input_feeding=attend == "after")
    plain = model(source[:1], Padded(LENGTHS[:1]), target[:1])
    edits = {
        "attention.weights": SetRow(2, {5: 1.0}),
        "decoder.layers.0.update_gate": lambda gate: gate * 0.5,
    }
    with intervene(model, edits), capture(model, ["attention.weights"]) as trace:
        whole = model(source[:1], Padded(LENGTHS[:1]), target[:1])
        assert_close(stepped(model, source[:1], LENGTHS[:1], target[:1]), whole)
    assert not torch.allclose(whole, plain, atol=1e-3)
    with intervene(model, {"attention.weights": SetRow(2, {5: 1.0})}), capture(model) as trace:
        whole = model(source[:1], Padded(LENGTHS[:1]), target[:1])
    assert_close(trace["attention.weights"][0, 0, 2], F.one_hot(torch.tensor(5), SOURCE).float())
    assert_close(whole[:, :2], plain[:, :2])


@torch.no_grad()
def test_reversing_the_source_equals_reading_reversed_tokens(source, target):
    forward = make_model(bidirectional=False, attend="none", cell="lstm")
    backward = make_model(bidirectional=False, attend="none", cell="lstm", reverse=True)
    whole = torch.full_like(LENGTHS, SOURCE)
    tokens = make_tokens(len(LENGTHS), SOURCE)
    expected = forward(tokens.flip(1), Padded(whole), target)
    assert_close(backward(tokens, Padded(whole), target), expected)


@torch.no_grad()
def test_a_decoder_without_attention_sees_the_source_through_one_vector(source, target):
    """All that the source can change is in the state that the decoder starts from."""
    model = make_model(attend="none")
    first, second = (model.start(make_tokens(4, SOURCE, seed), LENGTHS) for seed in (3, 4))
    assert not torch.allclose(first.layers[0][0], second.layers[0][0])
    second.layers = first.layers
    for tokens in target.T:
        assert_close(model.step(tokens, first), model.step(tokens, second))


@pytest.mark.parametrize("preset", PRESETS)
@torch.no_grad()
def test_presets_are_the_papers_architectures(preset, source, target):
    config = parse_settings(Seq2SeqConfig, {"preset": preset, "width": 12})
    model = Seq2Seq(config, VOCABULARY).eval()
    assert_close(stepped(model, source, LENGTHS, target), model(source, Padded(LENGTHS), target))
    expected = {
        "cho": ("gru", 1, "none", None),
        "sutskever": ("lstm", 4, "none", None),
        "bahdanau": ("gru", 1, "before", "additive"),
        "luong": ("lstm", 4, "after", "general"),
    }[preset]
    score = None if config.attend == "none" else config.attention.score
    assert (config.cell, config.layers, config.attend, score) == expected


def test_anatomy_names_the_attention_and_both_recurrences():
    anatomy = make_model(layers=2).anatomy()
    assert anatomy.attention("cross").path(0) == "attention"
    assert [(one.path, one.side, one.layers, one.directions) for one in anatomy.recurrences] == [
        ("encoder", "source", 2, 2),
        ("decoder", "target", 2, 1),
    ]
    assert anatomy.output_side == "target"
    assert make_model(attend="none").anatomy().attentions == ()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"reverse": True}, "reverse has no effect on a bidirectional encoder; set bidirectional to false"),
        ({"input_feeding": True}, "input_feeding needs attend 'after', not 'before'"),
        ({"input_feeding": True, "attend": "none"}, "input_feeding needs attend 'after', not 'none'"),
        (
            {"fixed_vector": "both"},
            "fixed_vector 'both' needs attend 'none'; with attention, leave it out",
        ),
        ({"width": 10, "attention": {"heads": 4}}, "width 10 is not divisible by attention.heads 4"),
        ({"preset": "vaswani"}, "preset 'vaswani' is not one of cho, sutskever, bahdanau, luong"),
        ({"cell": "gnu"}, "cell: 'gnu' is not one of rnn, gru, lstm"),
        ({"layers": 0}, "layers: 0 should be greater than 0"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings, problem):
    with pytest.raises(SettingsError) as caught:
        parse_settings(Seq2SeqConfig, settings)
    assert caught.value.problems == (problem,)


def test_heads_need_not_divide_the_width_without_attention():
    parse_settings(Seq2SeqConfig, {"width": 10, "attention": {"heads": 4}, "attend": "none"})


def test_texts_beyond_max_length_are_refused(source):
    for score in ("additive", "location"):
        model = make_model(attention={"score": score})
        with pytest.raises(TextError, match="the text has 21 tokens, but the model takes at most 20"):
            model.start(make_tokens(1, 21), torch.tensor([21]))
        state = model.start(source, LENGTHS)
        *tokens, last = make_tokens(len(LENGTHS), 21).T
        for token in tokens:
            model.step(token, state)
        with pytest.raises(TextError, match="the text has 21 tokens"):
            model.step(last, state)


def test_packed_rows_are_refused():
    batch = PairBatch.of([[7] * 3], [[8] * 3])
    ones = torch.ones_like(batch.source)
    layout = Packed(ones, ones, ones, ones)
    with pytest.raises(ModelError, match=r"takes one sentence per row; set batches\.kind to 'padded'"):
        make_model()(batch.source, layout, batch.inputs)
