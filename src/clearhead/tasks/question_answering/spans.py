"""Spans: where answers occur in a text, their loss, and the best span that a model finds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

Logits = Float[Tensor, "batch positions 2"]
Numbers = Int[Tensor, " batch"]


def occurrences(context: str, answers: Sequence[str], starts: Sequence[int] = ()) -> list[tuple[int, int]]:
    """The first and one past the last character of each answer in a text.

    Without `starts`, all occurrences count; those inside of longer words only if there are no others.
    """
    found: dict[tuple[int, int], None] = {}
    for number, answer in enumerate(map(str.strip, answers)):
        known = starts[number] if starts else -1
        if answer and known >= 0 and context[known : known + len(answer)] == answer:
            found[known, known + len(answer)] = None
            continue
        spans = list(_all(context, answer)) if answer else []
        whole = [span for span in spans if _is_whole(context, *span)]
        found.update(dict.fromkeys(whole or spans))
    return sorted(found)


def span_loss(
    logits: Logits, contexts: Numbers, targets: Int[Tensor, "batch occurrences 2"]
) -> Float[Tensor, " batch"]:
    """The negative log-probability that the span is any of the targets (Clark and Gardner 2018).

    Candidates are the first token, which stands for "no answer", and the `contexts` tokens after it. A span
    has the product of the probabilities of its start and its end. Targets of -1 do not count; a row of
    nothing else has no loss.
    """
    start, end = _masked(logits, contexts)
    counts = targets[..., 0] >= 0
    empty = ~counts.any(1)
    first, last = targets.clamp(min=0).long().unbind(-1)
    pairs = start.gather(1, first) + end.gather(1, last)
    # A row of -inf alone would have the gradient NaN.
    right = pairs.masked_fill(~counts & ~empty[:, None], float("-inf")).logsumexp(1)
    loss = start.logsumexp(1) + end.logsumexp(1) - right
    return loss.masked_fill(empty, 0.0)


class BestSpans(NamedTuple):
    """The best span of each row, in row positions, with scores that are sums of two logits."""

    score: Float[Tensor, " batch"]
    start: Numbers
    end: Numbers
    """Its last token."""
    total: Float[Tensor, " batch"]
    """The log-sum-exp of the scores of all spans."""
    nothing: Float[Tensor, " batch"]
    """The score of "no answer"."""


def best_spans(
    logits: Logits, contexts: Numbers, owned: Int[Tensor, "batch 2"], max_tokens: int
) -> BestSpans:
    """The best span of at most `max_tokens` tokens that starts within `owned` (first, one past the last)."""
    start, end = _masked(logits, contexts)
    nothing = start[:, 0] + end[:, 0]
    positions = torch.arange(logits.shape[1], device=logits.device)
    outside = (positions < owned[:, :1]) | (positions >= owned[:, 1:])
    start = start.masked_fill(outside, float("-inf"))
    later = torch.cat([end, end.new_full((len(end), max_tokens - 1), float("-inf"))], 1)
    # (batch, starts, lengths): the end of length n is n - 1 positions later.
    scores = (start[..., None] + later.unfold(1, max_tokens, 1)).flatten(1)
    score, best = scores.max(1)
    first = best // max_tokens
    return BestSpans(score, first, first + best % max_tokens, scores.logsumexp(1), nothing)


def _all(context: str, answer: str) -> Iterator[tuple[int, int]]:
    start = context.find(answer)
    while start >= 0:
        yield start, start + len(answer)
        start = context.find(answer, start + 1)


def _is_whole(context: str, first: int, last: int) -> bool:
    """Whether a span neither begins nor ends inside a word."""
    before, after = context[first - 1 : first + 1], context[last - 1 : last + 1]
    return not (first and before.isalnum()) and not (len(after) == 2 and after.isalnum())


def _masked(logits: Logits, contexts: Numbers) -> tuple[Tensor, Tensor]:
    """The logits of starts and of ends, -inf outside the candidates."""
    outside = torch.arange(logits.shape[1], device=logits.device) > contexts[:, None]
    start, end = logits.float().masked_fill(outside[..., None], float("-inf")).unbind(-1)
    return start, end
