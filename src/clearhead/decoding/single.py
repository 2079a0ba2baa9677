"""The loop that follows one path a sentence; how a word is chosen is given to it."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.guide import Guide, check_numbers
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.decoding.penalties import length_penalty
from clearhead.decoding.step import Remembered, Step

# From log-probabilities, the sentence of each row and the place in it, to one word a row.
Choose = Callable[[Float[Tensor, "rows vocabulary"], Int[Tensor, " rows"], int], Int[Tensor, " rows"]]

# Dropping rows copies what the model remembers of the others: done when this share of the rows is idle.
IDLE_SHARE = 0.25


@torch.no_grad()
def single_path(
    step: Step[Remembered],
    state: Remembered,
    guide: Guide,
    choose: Choose,
    alpha: float,
) -> list[Hypothesis]:
    """One hypothesis for each sentence, in their order."""
    device, end = guide.device, guide.end
    sentences = torch.arange(guide.sentences, device=device)
    words = torch.full((len(sentences), guide.longest), end, device=device)
    gains = torch.zeros(len(sentences), guide.longest, device=device)
    lengths = torch.zeros_like(sentences)
    is_open = torch.ones_like(sentences, dtype=torch.bool)
    last = torch.full_like(sentences, guide.start)

    for place in range(guide.longest):
        log_probabilities = guide.log_probabilities(step(last, state), words[sentences, :place], sentences)
        last = choose(log_probabilities, sentences, place)
        gain = log_probabilities.gather(1, last.unsqueeze(1)).squeeze(1)
        check_numbers(gain[is_open], sentences[is_open], place + 1)
        words[sentences, place] = last
        gains[sentences, place] = gain
        lengths[sentences] += is_open
        is_open &= (last != end) & (place + 1 < guide.limits[sentences])
        running = int(is_open.sum())
        if running == 0:
            break
        if running <= (1 - IDLE_SHARE) * len(sentences):
            rows = is_open.nonzero().squeeze(1)
            state.select(rows)
            sentences, last, is_open = sentences[rows], last[rows], is_open[rows]

    return [
        _hypothesis(row[:length], gain[:length], end, alpha)
        for row, gain, length in zip(words.tolist(), gains.tolist(), lengths.tolist(), strict=True)
    ]


def _hypothesis(words: list[int], gains: list[float], end: int, alpha: float) -> Hypothesis:
    total = sum(gains)
    complete = words[-1] == end
    return Hypothesis(
        words=words[:-1] if complete else words,
        score=total / length_penalty(len(words), alpha),
        log_probability=total,
        log_probabilities=gains,
        complete=complete,
    )
