"""Greedy search and beam search find what plainer ways of searching find."""

from itertools import product

import pytest
import torch

from clearhead.decoding import Guide, beam_search, greedy_search, length_penalty, no_repeat_ngrams
from clearhead.errors import ModelError, SettingsError

START, END = 0, 1
SEEDS = list(range(40))


def plain_beam_search(toy, seed, beam, longest, alpha, nbest):
    """One sentence, lists, no early stop: (words, score) best first."""
    opened, finished, cut = [([], 0.0)], [], []
    for length in range(1, longest + 1):
        found = [
            ([*words, word], total + toy([seed]).log_probabilities(seed, [*words, word])[-1])
            for words, total in opened
            for word in range(1, toy([seed]).vocabulary)
        ]
        found.sort(key=lambda one: -one[1])
        for words, total in found[:beam]:
            if words[-1] == END:
                finished.append((words[:-1], total / length_penalty(length, alpha)))
        opened = [one for one in found if one[0][-1] != END][:beam]
    cut = [(words, total / length_penalty(longest, alpha)) for words, total in opened]
    finished.sort(key=lambda one: -one[1])
    return (finished + cut)[:nbest]


def every_sentence(vocabulary, longest):
    """All words lists that can come out, with whether </s> was reached."""
    words = range(2, vocabulary)
    for length in range(longest):
        yield from ((list(one), True) for one in product(words, repeat=length))
    yield from ((list(one), False) for one in product(words, repeat=longest))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_beam_of_one_equals_greedy(toy, alpha):
    model = toy(SEEDS)
    beams = beam_search(model.step, model, Guide(len(SEEDS), START, END, 12), 1, alpha=alpha)
    model = toy(SEEDS)
    greedy = greedy_search(model.step, model, Guide(len(SEEDS), START, END, 12), alpha=alpha)
    assert [found.words for [found] in beams] == [found.words for found in greedy]
    assert [found.complete for [found] in beams] == [found.complete for found in greedy]
    for [one], other in zip(beams, greedy, strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize(("vocabulary", "longest"), [(5, 4), (6, 3)])
def test_wide_beam_equals_exhaustive_search(toy, alpha, vocabulary, longest):
    model = toy(SEEDS[:10], vocabulary)
    found = beam_search(model.step, model, Guide(10, START, END, longest), 1000, alpha=alpha, nbest=1000)
    for seed, ours in zip(SEEDS, found, strict=False):
        expected = []
        for words, complete in every_sentence(vocabulary, longest):
            gains = model.log_probabilities(seed, [*words, END] if complete else words)
            expected.append((complete, sum(gains) / length_penalty(len(gains), alpha), words))
        expected.sort(reverse=True)
        assert [one.words for one in ours] == [words for _, _, words in expected]
        assert [one.complete for one in ours] == [complete for complete, _, _ in expected]
        assert [one.score for one in ours] == pytest.approx([score for _, score, _ in expected], rel=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("beam", "nbest"), [(2, 1), (2, 2), (4, 1), (4, 3)])
def test_stopping_early_changes_no_result(toy, alpha, beam, nbest):
    model = toy(SEEDS)
    found = beam_search(model.step, model, Guide(len(SEEDS), START, END, 9), beam, alpha=alpha, nbest=nbest)
    for seed, ours in zip(SEEDS, found, strict=True):
        plain = plain_beam_search(toy, seed, beam, 9, alpha, nbest)
        assert [one.words for one in ours] == [words for words, _ in plain]
        assert [one.score for one in ours] == pytest.approx([score for _, score in plain], rel=1e-4)


def test_stopping_early_saves_work(toy):
    model = toy(SEEDS)
    beam_search(model.step, model, Guide(len(SEEDS), START, END, 50), 4, alpha=0.6)
    rows = model.rows_stepped
    assert rows[0] == len(SEEDS)
    assert rows[1] <= 4 * len(SEEDS)
    assert rows[2:] == sorted(rows[2:], reverse=True)
    assert len(rows) < 50
    assert sum(rows) < 50 * 4 * len(SEEDS) / 3


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_sentence_alone_equals_the_same_in_any_batch(toy, search):
    def run(seeds, longest):
        model = toy(seeds)
        if search == "greedy":
            return greedy_search(model.step, model, Guide(len(seeds), START, END, longest))
        return beam_search(model.step, model, Guide(len(seeds), START, END, longest), 3, nbest=2)

    longest = torch.tensor([3 + seed % 7 for seed in SEEDS])
    together = run(SEEDS, longest)
    backwards = run(SEEDS[::-1], longest.flip(0))[::-1]
    alone = [run([seed], int(longest[seed]))[0] for seed in SEEDS]
    assert together == backwards == alone


def test_log_probabilities_are_those_of_the_words(toy):
    model = toy(SEEDS)
    for seed, found in zip(
        SEEDS, beam_search(model.step, model, Guide(len(SEEDS), START, END, 6), 3, nbest=3), strict=True
    ):
        assert len({tuple(one.words) for one in found}) == len(found) == 3
        assert found == sorted(found, key=lambda one: (one.complete, one.score), reverse=True)
        for one in found:
            given = [*one.words, END] if one.complete else one.words
            assert one.log_probabilities == pytest.approx(model.log_probabilities(seed, given), rel=1e-4)
            assert one.log_probability == pytest.approx(sum(one.log_probabilities), rel=1e-5)
            assert one.score == pytest.approx(one.log_probability / length_penalty(len(given), 0.6), rel=1e-5)


def test_each_sentence_has_its_own_longest_length(toy):
    longest = torch.tensor([1 + seed % 5 for seed in SEEDS])
    model = toy(SEEDS)
    beams = beam_search(model.step, model, Guide(len(SEEDS), START, END, longest), 3, nbest=2)
    model = toy(SEEDS)
    greedy = greedy_search(model.step, model, Guide(len(SEEDS), START, END, longest))
    for limit, found, one in zip(longest.tolist(), beams, greedy, strict=True):
        for hypothesis in [*found, one]:
            assert len(hypothesis.log_probabilities) <= limit
            assert hypothesis.complete or len(hypothesis.words) == limit
    assert not all(one.complete for one in greedy)


def test_a_complete_sentence_goes_before_one_cut_off(toy):
    model = toy(SEEDS)
    found = beam_search(model.step, model, Guide(len(SEEDS), START, END, 3), 4, alpha=1.0, nbest=4)
    kinds = [[one.complete for one in sentence] for sentence in found]
    assert any(len(set(kind)) == 2 for kind in kinds)
    assert all(kind == sorted(kind, reverse=True) for kind in kinds)


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_forced_prefix_starts_the_sentence_at_the_models_own_probabilities(toy, search):
    prefix = [[2 + (seed + place) % 4 for place in range(seed % 4)] for seed in SEEDS]
    model = toy(SEEDS)
    if search == "greedy":
        found = greedy_search(model.step, model, Guide(len(SEEDS), START, END, 8, prefix=prefix))
    else:
        found = beam_search(model.step, model, Guide(len(SEEDS), START, END, 8, prefix=prefix), 3)
        found = [best for [best] in found]
    for seed, words, one in zip(SEEDS, prefix, found, strict=True):
        assert one.words[: len(words)] == words
        given = [*one.words, END] if one.complete else one.words
        assert one.log_probabilities == pytest.approx(model.log_probabilities(seed, given), rel=1e-4)
    free = [one for words, one in zip(prefix, found, strict=True) if not words]
    model = toy(SEEDS[::4])
    unforced = beam_search(model.step, model, Guide(10, START, END, 8), 3 if search == "beam" else 1)
    assert [one.words for one in free] == [best.words for [best] in unforced]


def test_a_forced_prefix_may_repeat_what_an_adjustment_forbids(toy):
    model = toy([7])
    [[one]] = beam_search(
        model.step, model, Guide(1, START, END, 8, prefix=[[2, 3, 2, 3]], adjust=[no_repeat_ngrams(2)]), 3
    )
    assert one.words[:4] == [2, 3, 2, 3]


def test_no_sentences_give_no_hypotheses(toy):
    model = toy([])
    assert beam_search(model.step, model, Guide(0, START, END, 8), 3) == []
    assert greedy_search(model.step, model, Guide(0, START, END, 8)) == []


def test_half_precision_logits_are_summed_in_single_precision(toy):
    model = toy(SEEDS)
    found = beam_search(
        lambda words, state: model.step(words, state).bfloat16(), model, Guide(len(SEEDS), START, END, 8), 3
    )
    for [one] in found:
        assert one.log_probability == pytest.approx(sum(one.log_probabilities), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam: 0 should be at least 1"),
        ({"nbest": 4}, "nbest: 4 should be from 1 to the beam, 3; widen the beam for more"),
        ({"nbest": 0}, "nbest: 0 should be from 1 to the beam, 3; widen the beam for more"),
        ({"longest": 0}, "longest: 0 should be at least 1"),
        ({"longest": torch.tensor([5, 0])}, "longest: 0 should be at least 1"),
        ({"longest": torch.tensor([5])}, "longest: 1 lengths for 2 sentences; give one each"),
        ({"alpha": -0.5}, "alpha: -0.5 should be from 0 to 10 (0 leaves lengths alone)"),
        ({"alpha": torch.inf}, "alpha: inf should be from 0 to 10 (0 leaves lengths alone)"),
        ({"alpha": torch.nan}, "alpha: nan should be from 0 to 10 (0 leaves lengths alone)"),
        ({"prefix": [[2]]}, "prefix: 1 prefixes for 2 sentences; give one each"),
        (
            {"prefix": [[], [2] * 8]},
            "prefix: 8 words for sentence 2 leave nothing of longest 8 to search",
        ),
    ],
)
def test_wrong_settings_are_named(toy, settings, message):
    model = toy([1, 2])
    told = {"longest": 8} | {name: settings[name] for name in ("longest", "prefix") if name in settings}
    wished = {"beam": 3} | {name: value for name, value in settings.items() if name not in told}
    with pytest.raises(SettingsError) as caught:
        beam_search(model.step, model, Guide(2, START, END, **told), **wished)
    assert str(caught.value) == message
    assert model.rows_stepped == []


@pytest.mark.parametrize("search", [greedy_search, lambda *a, **k: beam_search(*a, beam=3, **k)])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_model_that_gives_no_numbers_is_named_with_the_step(toy, search, number):
    model = toy([2, 5])

    def broken(words, state):
        logits = model.step(words, state)
        if len(model.rows_stepped) == 2:
            logits[len(words) // 2 :, 3] = number
        return logits

    with pytest.raises(ModelError) as caught:
        search(broken, model, Guide(2, START, END, 8, prefix=[[2, 3], [2, 3]]))
    assert str(caught.value) == (
        "step 2, sentence 2: the model gave no numbers (NaN); its weights or its precision are broken"
    )


@pytest.mark.parametrize("search", [greedy_search, lambda *a, **k: beam_search(*a, beam=3, **k)])
def test_a_forced_word_that_the_model_rules_out_is_refused(toy, search):
    model = toy([2])
    with pytest.raises(ModelError, match=r"^step 2, sentence 1: no word is possible; "):
        search(model.step, model, Guide(1, START, END, 8, prefix=[[2, START]]))
