"""A tree records a beam search without changing it."""

import pytest
import torch

from clearhead.decoding import Constraints, Tree, beam_search, length_normalizer

START, END = 0, 1
SEEDS = list(range(12))
MAX_LENGTH = 9


def starts(sentences: int) -> torch.Tensor:
    return torch.full((sentences,), START)


def searched(toy, beam=3, nbest=2, length_penalty=0.6, prefix=None, seeds=SEEDS):
    model, tree = toy(seeds), Tree(END, beam)
    constraints = Constraints(starts(len(seeds)), END, MAX_LENGTH, prefix)
    return beam_search(model.step, model, constraints, beam, length_penalty, nbest, tree), tree


@pytest.mark.parametrize(("beam", "nbest"), [(1, 1), (3, 1), (4, 3)])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 3.0])
def test_recording_does_not_change_the_result(toy, beam, nbest, length_penalty):
    recorded, _ = searched(toy, beam, nbest, length_penalty)
    model = toy(SEEDS)
    assert recorded == beam_search(
        model.step, model, Constraints(starts(len(SEEDS)), END, MAX_LENGTH), beam, length_penalty, nbest
    )


def test_every_node_has_the_models_probability_of_its_tokens(toy):
    _, tree = searched(toy)
    model = toy(SEEDS)
    for number, node in enumerate(tree.nodes):
        tokens = tree.tokens(number)
        log_probs = model.log_probs(SEEDS[node.sentence], tokens)
        assert len(tokens) == node.step + 1
        assert node.log_prob == pytest.approx(log_probs[-1], abs=1e-4)
        assert node.sum_log_prob == pytest.approx(sum(log_probs), abs=1e-4)
        assert node.score == pytest.approx(sum(log_probs) / length_normalizer(len(tokens), 0.6), abs=1e-4)


def test_only_kept_nodes_have_children_and_at_most_the_beam_are_kept_at_a_step(toy):
    _, tree = searched(toy)
    parents = {node.parent for node in tree.nodes} - {None}
    assert {tree.nodes[parent].state for parent in parents} == {"kept"}
    assert parents == {number for number, node in enumerate(tree.nodes) if node.state == "kept"}
    at_a_step = [(node.sentence, node.step) for node in tree.nodes if node.state == "kept"]
    assert max(at_a_step.count(one) for one in at_a_step) == 3


def test_dropped_nodes_are_worse_than_all_kept_ones(toy):
    _, tree = searched(toy)
    dropped = [node for node in tree.nodes if node.reason == "3 open hypotheses of its step are better"]
    assert dropped
    for node in dropped:
        kept = [
            one.sum_log_prob
            for one in tree.nodes
            if (one.sentence, one.step) == (node.sentence, node.step)
            and one.token != END
            and not (one.reason or "").startswith("3 open")
        ]
        assert len(kept) == 3
        assert min(kept) >= node.sum_log_prob


def test_returned_hypotheses_have_ranks_and_the_best_has_its_path(toy):
    found, tree = searched(toy)
    for sentence, hypotheses in enumerate(found):
        ranked = {
            node.rank: number
            for number, node in enumerate(tree.nodes)
            if node.sentence == sentence and node.rank is not None
        }
        assert sorted(ranked) == list(range(len(hypotheses)))
        for rank, one in enumerate(hypotheses):
            tokens = tree.tokens(ranked[rank])
            assert tokens == ([*one.tokens, END] if one.complete else one.tokens)
            assert tree.nodes[ranked[rank]].score == pytest.approx(one.score)
        best = [number for number, node in enumerate(tree.nodes) if node.best and node.sentence == sentence]
        assert best == tree.path(ranked[0])


def test_dropped_and_unreturned_nodes_have_a_reason(toy):
    nodes = [
        node
        for length_penalty in (0.6, 3.0)
        for node in searched(toy, length_penalty=length_penalty)[1].nodes
    ]
    for node in nodes:
        assert node.reason is None if node.state == "kept" else node.reason or node.rank is not None
    assert {node.reason for node in nodes if node.reason} == {
        "3 open hypotheses of its step are better",
        "it ends, but is not among the 3 best of its step",
        "none of its continuations is among the 6 best of the next step",
        "no continuation of it can beat the finished hypotheses, so the search stops",
        "another finished hypothesis scores better",
        "the maximum length cuts it off",
    }


def test_forced_tokens_are_the_only_ones_at_their_steps(toy):
    _, tree = searched(toy, prefix=[[3, 4]], seeds=[5])
    assert [node.token for node in tree.nodes if node.step < 2] == [3, 4]
    assert len([node for node in tree.nodes if node.step == 2]) > 3
