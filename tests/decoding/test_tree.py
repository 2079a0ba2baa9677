"""The tree of a beam search tells what the search did, and changes nothing."""

import pytest

from clearhead.decoding import Constraints, Tree, beam_search, length_normalizer

START, END = 0, 1
SEEDS = list(range(12))
LONGEST = 9


def searched(toy, beam=3, nbest=2, length_penalty=0.6, prefix=None, seeds=SEEDS):
    model, tree = toy(seeds), Tree(END, beam)
    constraints = Constraints(len(seeds), START, END, LONGEST, prefix)
    return beam_search(model.step, model, constraints, beam, length_penalty, nbest, tree), tree


@pytest.mark.parametrize(("beam", "nbest"), [(1, 1), (3, 1), (4, 3)])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 3.0])
def test_a_search_finds_the_same_whether_or_not_it_is_told(toy, beam, nbest, length_penalty):
    told, _ = searched(toy, beam, nbest, length_penalty)
    model = toy(SEEDS)
    assert told == beam_search(
        model.step, model, Constraints(len(SEEDS), START, END, LONGEST), beam, length_penalty, nbest
    )


def test_every_node_has_the_probability_that_the_model_gives_its_words(toy):
    _, tree = searched(toy)
    model = toy(SEEDS)
    for number, node in enumerate(tree.nodes):
        tokens = tree.tokens(number)
        log_probs = model.log_probabilities(SEEDS[node.sentence], tokens)
        assert len(tokens) == node.step + 1
        assert node.log_probability == pytest.approx(log_probs[-1], abs=1e-4)
        assert node.sum_log_prob == pytest.approx(sum(log_probs), abs=1e-4)
        assert node.score == pytest.approx(sum(log_probs) / length_normalizer(len(tokens), 0.6), abs=1e-4)


def test_only_kept_nodes_have_children_and_at_most_the_beam_are_kept_at_a_step(toy):
    _, tree = searched(toy)
    parents = {node.parent for node in tree.nodes} - {None}
    assert {tree.nodes[parent].fate for parent in parents} == {"kept"}
    assert parents == {number for number, node in enumerate(tree.nodes) if node.fate == "kept"}
    at_a_step = [(node.sentence, node.step) for node in tree.nodes if node.fate == "kept"]
    assert max(at_a_step.count(one) for one in at_a_step) == 3


def test_what_was_dropped_for_room_was_worse_than_all_that_was_kept(toy):
    _, tree = searched(toy)
    full = [node for node in tree.nodes if node.why == "3 open ones are better at this step"]
    assert full
    for node in full:
        kept = [
            one.sum_log_prob
            for one in tree.nodes
            if (one.sentence, one.step) == (node.sentence, node.step)
            and one.token != END
            and not (one.why or "").startswith("3 open")
        ]
        assert len(kept) == 3
        assert min(kept) >= node.sum_log_prob


def test_the_hypotheses_that_are_given_have_their_ranks_and_the_best_its_path(toy):
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


def test_whatever_is_not_followed_or_given_says_why(toy):
    nodes = [
        node
        for length_penalty in (0.6, 3.0)
        for node in searched(toy, length_penalty=length_penalty)[1].nodes
    ]
    for node in nodes:
        assert node.why is None if node.fate == "kept" else node.why or node.rank is not None
    assert {node.why for node in nodes if node.why} == {
        "3 open ones are better at this step",
        "it ends, but is not among the 3 best of its step",
        "none of its continuations is among the 6 best of the next step",
        "no continuation of it can beat what is finished: the search stops",
        "another one is finished with a better score",
        "the longest length cuts it off",
    }


def test_forced_words_are_the_only_ones_at_their_steps(toy):
    _, tree = searched(toy, prefix=[[3, 4]], seeds=[5])
    assert [node.token for node in tree.nodes if node.step < 2] == [3, 4]
    assert len([node for node in tree.nodes if node.step == 2]) > 3
