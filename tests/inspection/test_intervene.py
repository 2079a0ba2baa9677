"""Interventions do what they say, in full passes as in cached steps, and leave nothing behind."""

import threading

import pytest
import torch

from clearhead.errors import SettingsError
from clearhead.inspection import Keep, Move, Mute, Patch, Row, Swap, capture, intervene
from clearhead.layers.attention import Attention
from clearhead.models.cuda_graph import CudaGraphGPT


def attentions(model):
    return {path: module for path, module in model.named_modules() if isinstance(module, Attention)}


def test_a_muted_head_adds_what_it_would_without_its_columns(case):
    text = case.text()
    with intervene(case.model, {"*attention.head_output": Mute([1])}):
        muted = case.logits(text)
    before = case.logits(text)
    for attention in attentions(case.model).values():
        with torch.no_grad():
            attention.output.weight[:, attention.head_size : 2 * attention.head_size] = 0
    torch.testing.assert_close(muted, case.logits(text))
    assert not torch.allclose(muted, before, atol=1e-3)


def test_keeping_heads_is_muting_the_others(case):
    text = case.text()
    with intervene(case.model, {"*.head_output": Keep([0])}):
        kept = case.logits(text)
    heads = case.model.config.attention.heads
    with intervene(case.model, {"*.head_output": Mute(range(1, heads))}):
        assert torch.equal(kept, case.logits(text))


def test_a_row_of_one_weight_mixes_the_value_of_that_key_alone(case):
    name = "decoder.blocks.1.attention"
    changes = {f"{name}.weights": Row(3, [0, 0, 5, 0], head=1)}
    with intervene(case.model, changes), capture(case.model, [f"{name}.*"]) as trace:
        case.logits(case.text())
    assert trace[f"{name}.weights"][0, 1, 3].tolist() == [0, 0, 1, 0, 0]
    torch.testing.assert_close(trace[f"{name}.mixed"][0, 1, 3], trace[f"{name}.values"][0, 1, 2])
    masked = trace[f"{name}.masked"].softmax(-1)
    assert torch.equal(trace[f"{name}.weights"][:, 0], masked[:, 0]), "other heads stay"
    assert torch.equal(trace[f"{name}.weights"][:, 1, [0, 1, 2, 4]], masked[:, 1, [0, 1, 2, 4]])


def test_a_row_that_is_set_to_what_it_was_changes_nothing(case):
    name = "decoder.blocks.0.attention.weights"
    with capture(case.model, [name]) as trace:
        before = case.logits(case.text())
    with intervene(case.model, {name: [Row(4, trace[name][0, head, 4], head) for head in (0, 1)]}):
        torch.testing.assert_close(case.logits(case.text()), before)


def test_keys_that_are_not_named_share_the_rest_in_their_proportions(case_of):
    case, name = case_of("translator"), "decoder.blocks.0.cross_attention.weights"
    with capture(case.model, [name]) as plain:
        case.logits(case.text())
    with intervene(case.model, {name: Row(2, {1: 0.75, 4: 0.0})}), capture(case.model, [name]) as trace:
        case.logits(case.text())
    before, after = plain[name][0, :, 2], trace[name][0, :, 2]
    torch.testing.assert_close(after.sum(-1), torch.ones(2))
    torch.testing.assert_close(after[:, 1], torch.full((2,), 0.75))
    assert (after[:, 4] == 0).all()
    others = [0, 2, 3, 5]
    expected = 0.25 * before[:, others] / before[:, others].sum(-1, keepdim=True)
    torch.testing.assert_close(after[:, others], expected)


def every_change(case, trace):
    """One change of each kind, at positions that a search comes to one by one."""
    words = "target_embedding" if case.translates else "embedding"
    changes = {
        "decoder.*.attention.head_output": Mute([0]),
        "decoder.blocks.0.attention.weights": Row(2, [1, 2, 3], head=1),
        f"{words}.words": Swap({1: 7}),
        "decoder.blocks.1.attention.head_output": Patch(trace, heads=[1], positions=[3]),
        "decoder.blocks.0.feedforward.added": Patch(trace, positions={2: 4, 4: 0}),
        "logits": Patch(trace, positions=[1]),
    }
    kind = case.model.config.position
    if kind != "alibi":
        changes["decoder.position_ids" if kind == "rotary" else f"{words}.positions"] = Move(
            {1: 3, 3: 1, 4: 9}
        )
    if case.translates:
        changes["decoder.blocks.1.cross_attention.weights"] = [Row(3, {2: 0.9}), Row(0, [1, 0, 1])]
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


def test_a_swapped_token_is_as_if_it_had_been_read(case):
    text, words = case.text(), "source_embedding" if case.translates else "embedding"
    read = text[0].clone()
    read[0, 2] = 11
    with intervene(case.model, {f"{words}.words": Swap({2: 11})}):
        swapped = case.logits(text)
    torch.testing.assert_close(swapped, case.logits((read, *text[1:])))


@pytest.mark.parametrize("kind", ["translator", "translator, norm first", "translator, turned"])
def test_words_that_change_places_are_read_in_the_other_order(case_of, kind):
    case = case_of(kind)
    source, *rest = case.text()
    name = "encoder.position_ids" if kind == "translator, turned" else "source_embedding.position_ids"
    order = [1, 0, 2, 5, 4, 3]
    with intervene(case.model, {name: Move({0: 1, 1: 0, 3: 5, 5: 3})}):
        moved = case.logits((source, *rest))
    torch.testing.assert_close(moved, case.logits((source[:, order], *rest)))


def test_positions_can_be_taken_away(case_of):
    case = case_of("gpt")
    with intervene(case.model, {"embedding.position_embeddings": torch.zeros_like}):
        without = case.logits(case.text())
    with torch.no_grad():
        case.model.embedding.position.weight.zero_()
    torch.testing.assert_close(without, case.logits(case.text()))


def test_an_inner_change_finds_what_an_outer_one_left_and_captures_find_both(case_of):
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


def test_other_threads_compute_as_if_nothing_were_changed(case_of):
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
    with pytest.raises(SettingsError, match="hidden"), intervene(case.model, hidden_key()):
        case.logits(case.text())
    for module in case.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert getattr(module, "tap", None) is None
    assert torch.equal(case.logits(case.text()), before)


def hidden_key():
    return {"decoder.blocks.0.attention.weights": Row(1, [0, 0, 1])}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@torch.no_grad()
def test_recorded_steps_are_plain_ones_while_somebody_changes_the_model(case_of, device):
    model = case_of("gpt").model.to(device)
    words = torch.tensor([[7, 5, 11, 4, 9]], device=device)
    recorded = CudaGraphGPT(model)

    def last() -> torch.Tensor:
        return recorded.step(words[:, -1], recorded.start(words[:, :-1]))

    before = last()
    with intervene(model, {"*.head_output": Mute([0])}):
        torch.testing.assert_close(last(), model(words)[:, -1], atol=1e-4, rtol=1e-4)
        assert not torch.allclose(last(), before, atol=1e-3)
    torch.testing.assert_close(last(), before, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("decoder.states", Mute([0]), "decoder.states: has no heads; name a step of an attention"),
        ("*.head_output", Mute([2]), "there is no head 2; heads are 0 to 1"),
        ("*.head_output", Keep([-1]), "there is no head -1"),
        ("*.scores", Row(0, [1.0]), "has no rows of weights; edit .*attention.weights"),
        ("*.weights", Row(0, [float("nan")]), "nan is no weight; give numbers from 0 to 1e\\+30"),
        ("*.weights", Row(0, [1e39]), "1e\\+39 is no weight"),
        ("*.weights", Row(0, [1, -1]), "-1 is no weight"),
        ("*.weights", Row(0, [0, 0]), "the weights are all 0"),
        ("*.weights", Row(0, {0: 0.7, 1: 0.7}), "leave nothing to share; give at most 1"),
        ("*.weights", Row(-1, [1]), "positions count from 0, and there is no -1"),
        (
            "encoder.blocks.0.attention.weights",
            Row(0, {9: 0.5}),
            r"key 9 is hidden from query 0 \(keys are 0 to 5\)",
        ),
        ("decoder.blocks.0.attention.weights", Row(0, {0: 0.0}), "query 0 has no other key to look at"),
        ("encoder.states", Patch({}), "not in the trace that is to be patched in"),
        (
            "encoder.states",
            Patch({"encoder.states": torch.ones(1, 6, 8)}),
            r"\(1, 6, 8\) in the trace does not fit",
        ),
        ("*.head_output", Swap({0: [1.0]}), "has no vectors of words"),
        ("encoder.states", Swap({0: 5}), "takes vectors; a token by its id goes to the words"),
        ("encoder.states", Swap({0: [1.0]}), "1 numbers for a vector of 16"),
        ("encoder.states", Swap({0: [float("inf")] * 16}), "has what is no number in it"),
        ("source_embedding.token_embeddings", Swap({0: 20}), "there is no token 20; ids end at 19"),
        ("source_embedding.token_embeddings", Move({0: 1}), "has no positions; move those of an embedding"),
        ("source_embedding.position_ids", Move({0: 12}), "position 12 is beyond the model's last, 11"),
        ("source_embedding.position_ids", Move({10**30: 0}), "position 10+ is beyond the model's last, 11"),
        ("encoder.states", lambda states: states[:, 1:], r"gives \(1, 5, 16\), and \(1, 6, 16\) is needed"),
        ("encoder.states", 5, "5 is no change; give an edit, or a function of a tensor"),
        ("encoder.states", "x", "'x' is no change"),
        ("*.head_output", Mute(1), r"1 is no list of heads; give \[1\]"),
        ("*.head_output", Mute(["a"]), "there is no head a"),
        ("*.weights", Row(0, ["a"]), "'a' is no weight"),
        ("*.weights", Row(0.5, [1]), "there is no 0.5"),
        ("source_embedding.token_embeddings", Swap({0: "cat"}), "has what is no number in it"),
        ("source_embedding.position_ids", Move({0: 1.5}), "there is no 1.5"),
        ("encoder.states", Patch({}, positions={1: -2}), "there is no -2"),
        (
            "encoder.states",
            Patch({"encoder.states": torch.ones(1, 6, 16)}, positions={1: 6}),
            "position 6 is not in the trace that is to be patched in, which has 0 to 5",
        ),
        ("encoder.states", Patch(3), "3 is no trace; patch from what capture gave"),
        ("encoder.states", Patch({"encoder.states": 3}), "not in the trace that is to be patched in"),
        ("*.head_output", Mute, r"Mute is a kind of edit; make one, Mute\(…\)"),
        ("*.weights", Row(0, 3), "3 is no row; give a weight for each key, or {key: weight}"),
        ("encoder.states", Swap([5]), r"\[5\] is no mapping of positions; give {position: vector}"),
        (
            "source_embedding.position_ids",
            Move(2),
            "2 is no mapping of positions; give {position: other position}",
        ),
        ("encoder.stats", Mute([0]), "nothing in the model has this name; near it: encoder.states"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_with_a_way_out(case_of, name, change, message):
    case = case_of("translator")
    with pytest.raises(SettingsError, match=message), intervene(case.model, {name: change}):
        case.logits(case.text())


BEYOND = {
    "decoder.blocks.0.attention.weights": Row(5, [1.0]),
    "decoder.blocks.1.attention_residual.stream": Swap({2: [0.0] * 16, 5: [0.0] * 16}),
    "logits": Patch({"logits": torch.zeros(1, 7, 20)}, positions=[5]),
    "decoder.blocks.0.attention.keys": Patch(
        {"decoder.blocks.0.attention.keys": torch.zeros(1, 2, 7, 8)}, positions={5: 0}
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_a_place_that_the_text_does_not_have_is_not_passed_over(case_of, name):
    said = (
        f"{name}: position 5 was never come to, so that nothing changed there; the text had positions 0 to 4"
    )
    for kind in ("translator", "gpt"):
        case = case_of(kind)
        for run in (case.logits, case.steps):
            with pytest.raises(SettingsError) as refused, intervene(case.model, {name: BEYOND[name]}):
                run(case.text())
            assert str(refused.value) == said
            with intervene(case.model, {name: BEYOND[name]}):
                run(case.text(target=6))


def test_a_word_is_not_moved_from_a_place_that_the_text_does_not_have(case):
    rotary = case.model.config.position == "rotary"
    if case.model.config.position == "alibi":
        pytest.skip("has no positions")
    name = "decoder.position_ids" if rotary else f"{'target_' * case.translates}embedding.position_ids"
    for run in (case.logits, case.steps):
        with (
            pytest.raises(SettingsError, match="position 7 was never come to"),
            intervene(case.model, {name: Move({7: 2})}),
        ):
            run(case.text())


def test_what_goes_wrong_within_an_intervention_is_what_is_told(case_of):
    case = case_of("gpt")

    def broken() -> None:
        case.logits(case.text())
        raise KeyError

    with pytest.raises(KeyError), intervene(case.model, {"decoder.blocks.0.attention.weights": Row(9, [1])}):
        broken()
    with intervene(case.model, {"decoder.blocks.0.attention.weights": Row(9, [1])}):
        pass  # nothing was computed, so nothing was passed over


@pytest.mark.parametrize("changes", [None, [Mute([0])], "logits"])
def test_changes_are_told_by_the_names_of_what_they_change(case_of, changes):
    with pytest.raises(SettingsError, match="is no mapping; give"):
        intervene(case_of("gpt").model, changes).__enter__()


def test_edits_print_as_the_python_that_makes_them():
    for edit in (Mute([0, 2]), Keep([1]), Row(3, {1: 0.5}, head=2), Swap({2: 417}), Move({2: 5})):
        assert eval(repr(edit)) == edit
