"""Greedy search and beam search equal simpler searches."""

from itertools import product

import pytest
import torch

from clearhead.decoding import (
    Constraints,
    beam_search,
    greedy_search,
    length_normalizer,
    loop,
    most_probable,
    no_repeat_ngrams,
    sampler,
)
from clearhead.decoding.beam import in_parents_rows
from clearhead.errors import ModelError, SettingsError

START, END = 0, 1
SEEDS = list(range(40))


def starts(sentences: int) -> torch.Tensor:
    return torch.full((sentences,), START)


def plain_beam_search(toy, seed, beam, max_length, length_penalty, nbest):
    """Beam search for one sentence without early stopping: (tokens, score), best first."""
    opened, finished, cut = [([], 0.0)], [], []
    for length in range(1, max_length + 1):
        found = [
            ([*tokens, token], sum_log_prob + toy([seed]).log_probs(seed, [*tokens, token])[-1])
            for tokens, sum_log_prob in opened
            for token in range(1, toy([seed]).vocabulary)
        ]
        found.sort(key=lambda one: -one[1])
        for tokens, sum_log_prob in found[:beam]:
            if tokens[-1] == END:
                finished.append((tokens[:-1], sum_log_prob / length_normalizer(length, length_penalty)))
        opened = [one for one in found if one[0][-1] != END][:beam]
    cut = [
        (tokens, sum_log_prob / length_normalizer(max_length, length_penalty))
        for tokens, sum_log_prob in opened
    ]
    finished.sort(key=lambda one: -one[1])
    return (finished + cut)[:nbest]


def every_sentence(vocabulary, max_length):
    """All possible sentences, and whether each is complete."""
    tokens = range(2, vocabulary)
    for length in range(max_length):
        yield from ((list(one), True) for one in product(tokens, repeat=length))
    yield from ((list(one), False) for one in product(tokens, repeat=max_length))


@pytest.mark.parametrize("filters", [None, (1.3, 3, 0.9, 0.05)], ids=["greedy", "sampling"])
def test_a_step_ahead_changes_nothing(toy, monkeypatch, filters):
    """On a GPU the loop computes the next position before it looks at this one."""
    found = []
    for ahead in (0, 1):
        monkeypatch.setattr(loop, "_steps_ahead", lambda device, ahead=ahead: ahead)
        model, limits = toy(SEEDS), torch.tensor([1 + number % 12 for number in SEEDS])
        constraints = Constraints(starts(len(SEEDS)), END, limits, adjust=[no_repeat_ngrams(2)])
        choose = sampler(constraints, SEEDS, *filters) if filters else most_probable
        decoding = loop.DecodeLoop(model.step, model, constraints, choose, alternatives=2)
        positions = []
        for position in decoding:
            positions.append(position)
            if position == 2:
                decoding.stop([5, 30])
        found.append((decoding.hypotheses(), positions, decoding.alternatives, len(model.rows_stepped)))
    assert found[0][:3] == found[1][:3]
    assert found[0][3] <= found[1][3] <= found[0][3] + 1


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 3.0])
def test_beam_of_one_equals_greedy(toy, length_penalty):
    model = toy(SEEDS)
    beams = beam_search(
        model.step, model, Constraints(starts(len(SEEDS)), END, 12), 1, length_penalty=length_penalty
    )
    model = toy(SEEDS)
    greedy = greedy_search(
        model.step, model, Constraints(starts(len(SEEDS)), END, 12), length_penalty=length_penalty
    )
    assert [found.tokens for [found] in beams] == [found.tokens for found in greedy]
    assert [found.complete for [found] in beams] == [found.complete for found in greedy]
    for [one], other in zip(beams, greedy, strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-5)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
@pytest.mark.parametrize(("vocabulary", "max_length"), [(5, 4), (6, 3)])
def test_wide_beam_equals_exhaustive_search(toy, length_penalty, vocabulary, max_length):
    model = toy(SEEDS[:10], vocabulary)
    found = beam_search(
        model.step,
        model,
        Constraints(starts(10), END, max_length),
        1000,
        length_penalty=length_penalty,
        nbest=1000,
    )
    for seed, ours in zip(SEEDS, found, strict=False):
        expected = []
        for tokens, complete in every_sentence(vocabulary, max_length):
            log_probs = model.log_probs(seed, [*tokens, END] if complete else tokens)
            expected.append(
                (complete, sum(log_probs) / length_normalizer(len(log_probs), length_penalty), tokens)
            )
        expected.sort(reverse=True)
        assert [one.tokens for one in ours] == [tokens for _, _, tokens in expected]
        assert [one.complete for one in ours] == [complete for complete, _, _ in expected]
        assert [one.score for one in ours] == pytest.approx([score for _, score, _ in expected], rel=1e-4)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("beam", "nbest"), [(2, 1), (2, 2), (4, 1), (4, 3)])
def test_early_stopping_does_not_change_the_result(toy, length_penalty, beam, nbest):
    model = toy(SEEDS)
    found = beam_search(
        model.step,
        model,
        Constraints(starts(len(SEEDS)), END, 9),
        beam,
        length_penalty=length_penalty,
        nbest=nbest,
    )
    for seed, ours in zip(SEEDS, found, strict=True):
        plain = plain_beam_search(toy, seed, beam, 9, length_penalty, nbest)
        assert [one.tokens for one in ours] == [tokens for tokens, _ in plain]
        assert [one.score for one in ours] == pytest.approx([score for _, score in plain], rel=1e-4)


def test_early_stopping_saves_work(toy):
    model = toy(SEEDS)
    beam_search(model.step, model, Constraints(starts(len(SEEDS)), END, 50), 4, length_penalty=0.6)
    rows = model.rows_stepped
    assert rows[0] == len(SEEDS)
    assert rows[1] <= 4 * len(SEEDS)
    assert rows[2:] == sorted(rows[2:], reverse=True)
    assert len(rows) < 50
    assert sum(rows) < 50 * 4 * len(SEEDS) / 3


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_sentence_alone_equals_the_same_sentence_in_any_batch(toy, search):
    def run(seeds, max_length):
        model = toy(seeds)
        if search == "greedy":
            return greedy_search(model.step, model, Constraints(starts(len(seeds)), END, max_length))
        return beam_search(model.step, model, Constraints(starts(len(seeds)), END, max_length), 3, nbest=2)

    max_length = torch.tensor([3 + seed % 7 for seed in SEEDS])
    batched = run(SEEDS, max_length)
    backwards = run(SEEDS[::-1], max_length.flip(0))[::-1]
    alone = [run([seed], int(max_length[seed]))[0] for seed in SEEDS]
    assert batched == backwards == alone


def test_log_probs_are_those_of_the_tokens(toy):
    model = toy(SEEDS)
    for seed, found in zip(
        SEEDS,
        beam_search(model.step, model, Constraints(starts(len(SEEDS)), END, 6), 3, nbest=3),
        strict=True,
    ):
        assert len({tuple(one.tokens) for one in found}) == len(found) == 3
        assert found == sorted(found, key=lambda one: (one.complete, one.score), reverse=True)
        for one in found:
            given = [*one.tokens, END] if one.complete else one.tokens
            assert one.log_probs == pytest.approx(model.log_probs(seed, given), rel=1e-4)
            assert one.sum_log_prob == pytest.approx(sum(one.log_probs), rel=1e-5)
            assert one.score == pytest.approx(one.sum_log_prob / length_normalizer(len(given), 0.6), rel=1e-5)


def test_each_sentence_has_its_own_max_length(toy):
    max_length = torch.tensor([1 + seed % 5 for seed in SEEDS])
    model = toy(SEEDS)
    beams = beam_search(model.step, model, Constraints(starts(len(SEEDS)), END, max_length), 3, nbest=2)
    model = toy(SEEDS)
    greedy = greedy_search(model.step, model, Constraints(starts(len(SEEDS)), END, max_length))
    for limit, found, one in zip(max_length.tolist(), beams, greedy, strict=True):
        for hypothesis in [*found, one]:
            assert len(hypothesis.log_probs) <= limit
            assert hypothesis.complete or len(hypothesis.tokens) == limit
    assert not all(one.complete for one in greedy)


def test_complete_sentences_rank_before_those_cut_off(toy):
    model = toy(SEEDS)
    found = beam_search(
        model.step, model, Constraints(starts(len(SEEDS)), END, 3), 4, length_penalty=1.0, nbest=4
    )
    kinds = [[one.complete for one in sentence] for sentence in found]
    assert any(len(set(kind)) == 2 for kind in kinds)
    assert all(kind == sorted(kind, reverse=True) for kind in kinds)


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_forced_prefix_keeps_the_models_own_probabilities(toy, search):
    prefix = [[2 + (seed + position) % 4 for position in range(seed % 4)] for seed in SEEDS]
    model = toy(SEEDS)
    if search == "greedy":
        found = greedy_search(model.step, model, Constraints(starts(len(SEEDS)), END, 8, prefix=prefix))
    else:
        found = beam_search(model.step, model, Constraints(starts(len(SEEDS)), END, 8, prefix=prefix), 3)
        found = [best for [best] in found]
    for seed, tokens, one in zip(SEEDS, prefix, found, strict=True):
        assert one.tokens[: len(tokens)] == tokens
        given = [*one.tokens, END] if one.complete else one.tokens
        assert one.log_probs == pytest.approx(model.log_probs(seed, given), rel=1e-4)
    free = [one for tokens, one in zip(prefix, found, strict=True) if not tokens]
    model = toy(SEEDS[::4])
    unforced = beam_search(model.step, model, Constraints(starts(10), END, 8), 3 if search == "beam" else 1)
    assert [one.tokens for one in free] == [best.tokens for [best] in unforced]


def test_a_forced_prefix_may_repeat_a_blocked_ngram(toy):
    model = toy([7])
    [[one]] = beam_search(
        model.step,
        model,
        Constraints(starts(1), END, 8, prefix=[[2, 3, 2, 3]], adjust=[no_repeat_ngrams(2)]),
        3,
    )
    assert one.tokens[:4] == [2, 3, 2, 3]


def test_no_sentences_give_no_hypotheses(toy):
    model = toy([])
    assert beam_search(model.step, model, Constraints(starts(0), END, 8), 3) == []
    assert greedy_search(model.step, model, Constraints(starts(0), END, 8)) == []


def test_half_precision_logits_are_summed_in_single_precision(toy):
    model = toy(SEEDS)
    found = beam_search(
        lambda tokens, state: model.step(tokens, state).bfloat16(),
        model,
        Constraints(starts(len(SEEDS)), END, 8),
        3,
    )
    for [one] in found:
        assert one.sum_log_prob == pytest.approx(sum(one.log_probs), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam: 0 should be at least 1"),
        ({"nbest": 4}, "nbest: 4 should be from 1 to the beam, 3; widen the beam for more"),
        ({"nbest": 0}, "nbest: 0 should be from 1 to the beam, 3; widen the beam for more"),
        ({"max_length": 0}, "max_length: 0 should be at least 1"),
        ({"max_length": torch.tensor([5, 0])}, "max_length: 0 should be at least 1"),
        ({"max_length": torch.tensor([5])}, "max_length: 1 lengths for 2 sentences; give one each"),
        ({"length_penalty": -0.5}, "length_penalty: -0.5 should be from 0 to 10 (0 disables it)"),
        ({"length_penalty": torch.inf}, "length_penalty: inf should be from 0 to 10 (0 disables it)"),
        ({"length_penalty": torch.nan}, "length_penalty: nan should be from 0 to 10 (0 disables it)"),
        ({"prefix": [[2]]}, "prefix: 1 prefixes for 2 sentences; give one each"),
        (
            {"prefix": [[], [2] * 8]},
            "prefix: the 8 tokens of sentence 2 reach its max_length 8; shorten them",
        ),
    ],
)
def test_values_out_of_range_are_refused(toy, settings, message):
    model = toy([1, 2])
    limits = {"max_length": 8} | {
        name: settings[name] for name in ("max_length", "prefix") if name in settings
    }
    options = {"beam": 3} | {name: value for name, value in settings.items() if name not in limits}
    with pytest.raises(SettingsError) as caught:
        beam_search(model.step, model, Constraints(starts(2), END, **limits), **options)
    assert str(caught.value) == message
    assert model.rows_stepped == []


@pytest.mark.parametrize("search", [greedy_search, lambda *a, **k: beam_search(*a, beam=3, **k)])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_nan_logits_are_reported_with_their_step(toy, search, number):
    model = toy([2, 5])

    def broken(tokens, state):
        logits = model.step(tokens, state)
        if len(model.rows_stepped) == 2:
            logits[len(tokens) // 2 :, 3] = number
        return logits

    with pytest.raises(ModelError) as caught:
        search(broken, model, Constraints(starts(2), END, 8, prefix=[[2, 3], [2, 3]]))
    assert str(caught.value) == (
        "step 2, sentence 2: the model's output is NaN; its weights or its precision are broken"
    )


@pytest.mark.parametrize("search", [greedy_search, lambda *a, **k: beam_search(*a, beam=3, **k)])
def test_an_impossible_forced_token_is_refused(toy, search):
    model = toy([2])
    with pytest.raises(ModelError, match=r"^step 2, sentence 1: no token is possible; "):
        search(model.step, model, Constraints(starts(1), END, 8, prefix=[[2, START]]))


def test_the_first_child_of_each_parent_takes_its_row():
    parents = torch.randint(0, 5, (200, 5))
    order = in_parents_rows(parents)
    assert torch.equal(order.sort(1).values, torch.arange(5).expand(200, 5))
    placed = parents.gather(1, order)
    for before, after in zip(parents.tolist(), placed.tolist(), strict=True):
        assert all(after[parent] == parent for parent in set(before))
