"""Interventions have the same effect in full passes and in cached steps, and leave nothing behind."""

import threading

import pytest
import torch

from clearhead.errors import SettingsError
from clearhead.inspection import KeepOnly, Mute, Patch, SetPosition, SetRow, Swap, capture, intervene
from clearhead.layers.attention import Attention
from clearhead.models.cuda_graph import CudaGraphGPT


def attentions(model):
    return {path: module for path, module in model.named_modules() if isinstance(module, Attention)}


def test_muting_a_head_equals_zeroing_its_columns(case):
    text = case.text()
    with intervene(case.model, {"*attention.head_output": Mute([1])}):
        muted = case.logits(text)
    before = case.logits(text)
    for attention in attentions(case.model).values():
        with torch.no_grad():
            attention.output.weight[:, attention.head_size : 2 * attention.head_size] = 0
    torch.testing.assert_close(muted, case.logits(text))
    assert not torch.allclose(muted, before, atol=1e-3)


def test_keeping_heads_equals_muting_the_others(case):
    text = case.text()
    with intervene(case.model, {"*.head_output": KeepOnly([0])}):
        kept = case.logits(text)
    heads = case.model.config.attention.heads
    with intervene(case.model, {"*.head_output": Mute(range(1, heads))}):
        assert torch.equal(kept, case.logits(text))


def test_a_row_with_one_weight_outputs_the_value_of_that_key(case):
    name = "decoder.blocks.1.attention"
    changes = {f"{name}.weights": SetRow(3, [0, 0, 5, 0], head=1)}
    with intervene(case.model, changes), capture(case.model, [f"{name}.*"]) as trace:
        case.logits(case.text())
    assert trace[f"{name}.weights"][0, 1, 3].tolist() == [0, 0, 1, 0, 0]
    torch.testing.assert_close(trace[f"{name}.head_output"][0, 1, 3], trace[f"{name}.values"][0, 1, 2])
    masked = trace[f"{name}.masked"].softmax(-1)
    assert torch.equal(trace[f"{name}.weights"][:, 0], masked[:, 0]), "other heads stay"
    assert torch.equal(trace[f"{name}.weights"][:, 1, [0, 1, 2, 4]], masked[:, 1, [0, 1, 2, 4]])


def test_setting_a_row_to_its_own_weights_changes_nothing(case):
    name = "decoder.blocks.0.attention.weights"
    with capture(case.model, [name]) as trace:
        before = case.logits(case.text())
    with intervene(case.model, {name: [SetRow(4, trace[name][0, head, 4], head) for head in (0, 1)]}):
        torch.testing.assert_close(case.logits(case.text()), before)


def test_other_keys_share_the_rest_in_proportion(case_of):
    case, name = case_of("translator"), "decoder.blocks.0.cross_attention.weights"
    with capture(case.model, [name]) as plain:
        case.logits(case.text())
    with intervene(case.model, {name: SetRow(2, {1: 0.75, 4: 0.0})}), capture(case.model, [name]) as trace:
        case.logits(case.text())
    before, after = plain[name][0, :, 2], trace[name][0, :, 2]
    torch.testing.assert_close(after.sum(-1), torch.ones(2))
    torch.testing.assert_close(after[:, 1], torch.full((2,), 0.75))
    assert (after[:, 4] == 0).all()
    others = [0, 2, 3, 5]
    expected = 0.25 * before[:, others] / before[:, others].sum(-1, keepdim=True)
    torch.testing.assert_close(after[:, others], expected)


def every_change(case, trace):
    """One change of each kind, at positions that cached steps reach one by one."""
    embedding = "target_embedding" if case.translates else "embedding"
    changes = {
        "decoder.*.attention.head_output": Mute([0]),
        "decoder.blocks.0.attention.weights": SetRow(2, [1, 2, 3], head=1),
        f"{embedding}.token_embeddings": Swap({1: 7}),
        "decoder.blocks.1.attention.head_output": Patch(trace, heads=[1], positions=[3]),
        "decoder.blocks.0.feedforward.added": Patch(trace, positions={2: 4, 4: 0}),
        "logits": Patch(trace, positions=[1]),
    }
    kind = case.model.config.position
    if kind != "alibi":
        changes["decoder.position_ids" if kind == "rotary" else f"{embedding}.position_ids"] = SetPosition(
            {1: 3, 3: 1, 4: 9}
        )
    if case.translates:
        changes["decoder.blocks.1.cross_attention.weights"] = [SetRow(3, {2: 0.9}), SetRow(0, [1, 0, 1])]
        changes["encoder.states"] = lambda states: states.roll(1, -1)
    return changes


def test_cached_steps_equal_one_full_pass_under_every_change(case):
    with capture(case.model) as trace:
        case.logits(case.text(seed=2))
    before = case.logits(case.text())
    for name, change in every_change(case, trace).items():
        with intervene(case.model, {name: change}):
            whole, stepped = case.logits(case.text()), case.steps(case.text())
        torch.testing.assert_close(whole, stepped, msg=lambda message, name=name: f"{name}: {message}")
        assert not torch.allclose(whole, before), name
    with intervene(case.model, every_change(case, trace)):
        torch.testing.assert_close(case.logits(case.text()), case.steps(case.text()))
    assert torch.equal(case.logits(case.text()), before)


def test_a_patched_encoder_makes_the_decoder_translate_the_other_source(case_of):
    case = case_of("translator")
    one, other = case.text(seed=0), case.text(seed=5)
    with capture(case.model, ["encoder.states"]) as trace:
        case.logits(other)
    with intervene(case.model, {"encoder.states": Patch(trace)}):
        patched = case.logits(one)
    assert torch.equal(patched, case.logits((other[0], other[1], one[2])))


def test_swapping_an_embedding_equals_reading_the_other_token(case):
    text, embedding = case.text(), "source_embedding" if case.translates else "embedding"
    source = text[0].clone()
    source[0, 2] = 11
    with intervene(case.model, {f"{embedding}.token_embeddings": Swap({2: 11})}):
        swapped = case.logits(text)
    torch.testing.assert_close(swapped, case.logits((source, *text[1:])))


@pytest.mark.parametrize("kind", ["translator", "translator, pre-norm", "translator, rotary"])
def test_exchanging_positions_equals_reordering_the_tokens(case_of, kind):
    case = case_of(kind)
    source, *rest = case.text()
    name = "encoder.position_ids" if kind == "translator, rotary" else "source_embedding.position_ids"
    order = [1, 0, 2, 5, 4, 3]
    with intervene(case.model, {name: SetPosition({0: 1, 1: 0, 3: 5, 5: 3})}):
        moved = case.logits((source, *rest))
    torch.testing.assert_close(moved, case.logits((source[:, order], *rest)))


def test_zeroed_position_embeddings_equal_a_model_without_positions(case_of):
    case = case_of("gpt")
    with intervene(case.model, {"embedding.position_embeddings": torch.zeros_like}):
        without = case.logits(case.text())
    with torch.no_grad():
        case.model.embedding.position.weight.zero_()
    torch.testing.assert_close(without, case.logits(case.text()))


def test_inner_changes_follow_outer_ones_and_captures_record_both(case_of):
    case, name = case_of("gpt"), "decoder.blocks.0.feedforward.added"
    with (
        capture(case.model, [name]) as around,
        intervene(case.model, {name: torch.ones_like}),
        intervene(case.model, {name: lambda added: 3 * added}),
        capture(case.model, [name]) as inside,
    ):
        case.logits(case.text())
    assert (inside[name] == 3).all()
    assert (around[name] == 3).all()


def test_other_threads_are_not_affected(case_of):
    case = case_of("gpt")
    before, found = case.logits(case.text()), []
    with intervene(case.model, {"decoder.*.added": torch.zeros_like, "*.head_output": Mute([0])}):
        thread = threading.Thread(target=lambda: found.append(case.logits(case.text())))
        thread.start()
        thread.join()
        assert not torch.allclose(case.logits(case.text()), before)
    torch.testing.assert_close(found[0], before)


def test_nothing_remains_after_an_exception(case):
    before = case.logits(case.text())
    with pytest.raises(SettingsError, match="masked"), intervene(case.model, masked_key()):
        case.logits(case.text())
    for module in case.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert getattr(module, "tap", None) is None
    assert torch.equal(case.logits(case.text()), before)


def masked_key():
    return {"decoder.blocks.0.attention.weights": SetRow(1, [0, 0, 1])}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@torch.no_grad()
def test_cuda_graphs_are_bypassed_during_an_intervention(case_of, device):
    model = case_of("gpt").model.to(device)
    tokens = torch.tensor([[7, 5, 11, 4, 9]], device=device)
    graphs = CudaGraphGPT(model)

    def last() -> torch.Tensor:
        return graphs.step(tokens[:, -1], graphs.start(tokens[:, :-1]))

    before = last()
    with intervene(model, {"*.head_output": Mute([0])}):
        torch.testing.assert_close(last(), model(tokens)[:, -1], atol=1e-4, rtol=1e-4)
        assert not torch.allclose(last(), before, atol=1e-3)
    torch.testing.assert_close(last(), before, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("decoder.states", Mute([0]), "decoder.states: has no heads; edit a step of an attention"),
        ("*.head_output", Mute([2]), "there is no head 2; heads are 0 to 1"),
        ("*.head_output", KeepOnly([-1]), "there is no head -1"),
        ("*.scores", SetRow(0, [1.0]), "not attention weights; edit .*attention.weights"),
        ("*.weights", SetRow(0, [float("nan")]), "nan is not a weight; pass numbers from 0 to 1e\\+30"),
        ("*.weights", SetRow(0, [1e39]), "1e\\+39 is not a weight"),
        ("*.weights", SetRow(0, [1, -1]), "-1 is not a weight"),
        ("*.weights", SetRow(0, [0, 0]), "all weights are 0"),
        ("*.weights", SetRow(0, {0: 0.7, 1: 0.7}), "the weights sum to 1.4; their sum must not exceed 1"),
        ("*.weights", SetRow(-1, [1]), "-1 is not a position; positions count from 0"),
        (
            "encoder.blocks.0.attention.weights",
            SetRow(0, {9: 0.5}),
            r"query 0 cannot attend to key 9 \(keys are 0 to 5\)",
        ),
        ("decoder.blocks.0.attention.weights", SetRow(0, {0: 0.0}), "query 0 has no other key to attend to"),
        ("encoder.states", Patch({}), "not in the patched trace; capture it there"),
        (
            "encoder.states",
            Patch({"encoder.states": torch.ones(1, 6, 8)}),
            r"\(1, 6, 8\) in the trace does not fit",
        ),
        ("*.head_output", Swap({0: [1.0]}), "has no vector for each token"),
        ("encoder.states", Swap({0: 5}), "takes vectors; only token_embeddings takes the id of a token"),
        ("encoder.states", Swap({0: [1.0]}), "the vector has 1 numbers, not 16"),
        (
            "encoder.states",
            Swap({0: [float("inf")] * 16}),
            "the vector for position 0 is not of finite numbers",
        ),
        ("source_embedding.token_embeddings", Swap({0: 20}), "there is no token 20; ids are 0 to 19"),
        (
            "source_embedding.token_embeddings",
            SetPosition({0: 1}),
            "has no positions; edit the position_ids of an embedding",
        ),
        ("source_embedding.position_ids", SetPosition({0: 12}), "position 12 is beyond the model's last, 11"),
        (
            "source_embedding.position_ids",
            SetPosition({10**30: 0}),
            "position 10+ is beyond the model's last, 11",
        ),
        (
            "encoder.states",
            lambda states: states[:, 1:],
            r"the change returned \(1, 5, 16\), not \(1, 6, 16\)",
        ),
        ("encoder.states", 5, "5 is not a change; pass an edit or a function of a tensor"),
        ("encoder.states", "x", "'x' is not a change"),
        ("*.head_output", Mute(1), r"1 is not a list of heads; pass \[1\]"),
        ("*.head_output", Mute(["a"]), "there is no head a"),
        ("*.weights", SetRow(0, ["a"]), "'a' is not a weight"),
        ("*.weights", SetRow(0.5, [1]), "0.5 is not a position"),
        (
            "source_embedding.token_embeddings",
            Swap({0: "cat"}),
            "the vector for position 0 is not of finite numbers",
        ),
        ("source_embedding.position_ids", SetPosition({0: 1.5}), "1.5 is not a position"),
        ("encoder.states", Patch({}, positions={1: -2}), "-2 is not a position"),
        (
            "encoder.states",
            Patch({"encoder.states": torch.ones(1, 6, 16)}, positions={1: 6}),
            "position 6 is not in the patched trace; it has 0 to 5",
        ),
        ("encoder.states", Patch(3), "3 is not a trace; pass the result of capture"),
        ("encoder.states", Patch({"encoder.states": 3}), "not in the patched trace; capture it there"),
        ("*.head_output", Mute, r"Mute is a class; pass an instance, Mute\(…\)"),
        ("*.weights", SetRow(0, 3), "3 is not a row; pass a weight for each key, or {key: weight}"),
        ("encoder.states", Swap([5]), r"\[5\] is not a mapping of positions; pass {position: vector}"),
        (
            "source_embedding.position_ids",
            SetPosition(2),
            "2 is not a mapping of positions; pass {position: new position}",
        ),
        ("encoder.stats", Mute([0]), "no tensor of the model has this name; did you mean encoder.states"),
    ],
)
def test_an_invalid_change_is_an_error_that_says_how_to_fix_it(case_of, name, change, message):
    case = case_of("translator")
    with pytest.raises(SettingsError, match=message), intervene(case.model, {name: change}):
        case.logits(case.text())


BEYOND = {
    "decoder.blocks.0.attention.weights": SetRow(5, [1.0]),
    "decoder.blocks.1.attention_residual.stream": Swap({2: [0.0] * 16, 5: [0.0] * 16}),
    "logits": Patch({"logits": torch.zeros(1, 7, 20)}, positions=[5]),
    "decoder.blocks.0.attention.keys": Patch(
        {"decoder.blocks.0.attention.keys": torch.zeros(1, 2, 7, 8)}, positions={5: 0}
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_a_position_beyond_the_text_is_an_error(case_of, name):
    message = f"{name}: nothing changed at position 5; the text has positions 0 to 4"
    for kind in ("translator", "gpt"):
        case = case_of(kind)
        for run in (case.logits, case.steps):
            with pytest.raises(SettingsError) as error, intervene(case.model, {name: BEYOND[name]}):
                run(case.text())
            assert str(error.value) == message
            with intervene(case.model, {name: BEYOND[name]}):
                run(case.text(target=6))


def test_moving_a_token_from_beyond_the_text_is_an_error(case):
    rotary = case.model.config.position == "rotary"
    if case.model.config.position == "alibi":
        pytest.skip("has no positions")
    name = "decoder.position_ids" if rotary else f"{'target_' * case.translates}embedding.position_ids"
    for run in (case.logits, case.steps):
        with (
            pytest.raises(SettingsError, match="nothing changed at position 7"),
            intervene(case.model, {name: SetPosition({7: 2})}),
        ):
            run(case.text())


def test_an_exception_within_an_intervention_takes_precedence(case_of):
    case = case_of("gpt")

    def broken() -> None:
        case.logits(case.text())
        raise KeyError

    with (
        pytest.raises(KeyError),
        intervene(case.model, {"decoder.blocks.0.attention.weights": SetRow(9, [1])}),
    ):
        broken()
    with intervene(case.model, {"decoder.blocks.0.attention.weights": SetRow(9, [1])}):
        pass  # nothing was computed, so no position was missed


@pytest.mark.parametrize("changes", [None, [Mute([0])], "logits"])
def test_changes_must_be_a_mapping(case_of, changes):
    with pytest.raises(SettingsError, match="is not a mapping; pass"):
        intervene(case_of("gpt").model, changes).__enter__()


def test_the_repr_of_an_edit_is_the_python_that_makes_it():
    for edit in (
        Mute([0, 2]),
        KeepOnly([1]),
        SetRow(3, {1: 0.5}, head=2),
        Swap({2: 417}),
        SetPosition({2: 5}),
    ):
        assert eval(repr(edit)) == edit
