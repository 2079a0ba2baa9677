"""Where answers occur, the loss over all occurrences, and the best span."""

import itertools
import math

import pytest
import torch

from clearhead.tasks.question_answering.spans import best_spans, occurrences, span_loss


def test_all_occurrences_of_an_answer_count():
    assert occurrences("Bob met Bob.", ["Bob"]) == [(0, 3), (8, 11)]
    assert occurrences("Bob met Bob.", ["Bob"], [8]) == [(8, 11)]
    assert occurrences("Bob met Ada.", ["Eve"]) == []
    assert occurrences("Bob met Ada.", ["Ada", "met Ada"]) == [(4, 11), (8, 11)]


def test_occurrences_inside_of_words_count_only_if_there_are_no_others():
    assert occurrences("In 1973, 19 of 197.", ["19"]) == [(9, 11)]
    assert occurrences("In 1973.", ["19"]) == [(3, 5)]
    assert occurrences("aaa", ["a"]) == [(0, 1), (1, 2), (2, 3)]


def test_an_offset_that_is_wrong_is_not_believed():
    assert occurrences("Bob met Ada.", ["Ada"], [3]) == [(8, 11)]


def test_the_marginal_loss_equals_brute_force():
    torch.manual_seed(0)
    logits, contexts = torch.randn(3, 7, 2), torch.tensor([6, 4, 3])
    targets = torch.tensor(
        [[[1, 2], [4, 4], [2, 5]], [[0, 0], [-1, -1], [-1, -1]], [[3, 3], [1, 3], [-1, -1]]]
    )
    found = span_loss(logits, contexts, targets)
    for row in range(3):
        inside = range(int(contexts[row]) + 1)
        spans = {
            (i, j): (logits[row, i, 0] + logits[row, j, 1]).exp()
            for i, j in itertools.product(inside, inside)
        }
        right = sum(spans[i, j] for i, j in targets[row].tolist() if i >= 0)
        assert found[row] == pytest.approx(-math.log(float(right / sum(spans.values()))), abs=1e-5)


def test_a_row_without_targets_has_no_loss_and_no_gradient():
    logits = torch.randn(2, 5, 2, requires_grad=True)
    targets = torch.tensor([[[1, 2]], [[-1, -1]]])
    loss = span_loss(logits, torch.tensor([4, 0]), targets)
    loss.sum().backward()
    assert loss[1] == 0
    assert logits.grad is not None
    assert logits.grad[0].abs().sum() > 0
    assert logits.grad[1].abs().sum() == 0


def test_the_best_span_equals_brute_force():
    torch.manual_seed(1)
    logits, contexts, owned = (
        torch.randn(4, 9, 2),
        torch.tensor([8, 6, 5, 8]),
        torch.tensor([[1, 9], [1, 7], [2, 4], [5, 9]]),
    )
    found = best_spans(logits, contexts, owned, 3)
    for row in range(4):
        first, last = owned[row].tolist()
        spans = {
            (i, j): float(logits[row, i, 0] + logits[row, j, 1])
            for i in range(first, last)
            for j in range(i, min(i + 3, int(contexts[row]) + 1))
        }
        best = max(spans, key=lambda span: spans[span])
        assert (int(found.start[row]), int(found.end[row])) == best
        assert found.score[row] == pytest.approx(spans[best])
        assert found.total[row] == pytest.approx(
            float(torch.tensor([*spans.values()]).logsumexp(0)), abs=1e-5
        )
        assert found.nothing[row] == pytest.approx(float(logits[row, 0].sum()))
