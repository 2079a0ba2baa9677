"""The loop that follows one path a sentence; how a word is chosen is given to it."""

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.constraints import Guide, check_numbers
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.decoding.penalties import length_penalty
from clearhead.decoding.step import Remembered, Step

# From log-probabilities, the sentence of each row and the place in it, to one word a row.
Choose = Callable[[Float[Tensor, "rows vocabulary"], Int[Tensor, " rows"], int], Int[Tensor, " rows"]]

# Dropping rows copies what the model remembers of the others: done when this share of the rows is idle.
IDLE_SHARE = 0.25


class Walk:
    """One path a sentence, word by word: who iterates over its places sees them grow, and may end some.

    So many `shown` words, the most probable, are kept beside each that is chosen. The books are kept by the
    processor: a GPU is waited for once a step.
    """

    def __init__(
        self, step: Step[Remembered], state: Remembered, guide: Guide, choose: Choose, shown: int = 0
    ):
        self._step, self._state, self._guide, self._choose = step, state, guide, choose
        self.shown = shown
        sentences, longest = guide.sentences, guide.longest
        self.words = torch.full((sentences, longest), guide.ends[0])
        self.gains = torch.zeros(sentences, longest)
        """The log-probability of each word."""
        self.alternatives: list[dict[int, list[tuple[int, float]]]] = []
        """The most probable words at each place and their log-probabilities, by sentence."""
        self.lengths = torch.zeros(sentences, dtype=torch.long)
        self.is_open = torch.ones(sentences, dtype=torch.bool)
        self._limits, self._ends = guide.limits.cpu(), torch.tensor(guide.ends)

    def end(self, sentences: Sequence[int]) -> None:
        """These sentences end where they are."""
        self.is_open[list(sentences)] = False

    @torch.no_grad()
    def __iter__(self) -> Iterator[int]:
        """Each place once its words are there."""
        guide = self._guide
        rows = torch.arange(guide.sentences)
        there, last = rows.to(guide.device), guide.first
        said = self.words.to(guide.device, copy=True)
        for place in range(guide.longest):
            logits = self._step(last, self._state)
            log_probabilities = guide.log_probabilities(logits, said[there, :place], there)
            last = self._choose(log_probabilities, there, place)
            said[there, place] = last
            self._write(log_probabilities, last, rows, place)
            yield place
            running = self.is_open[rows]
            count = int(running.sum())
            if count == 0:
                return
            if count <= (1 - IDLE_SHARE) * len(rows):
                rows, kept = rows[running], running.nonzero().squeeze(1).to(guide.device)
                self._state.select(kept)
                there, last = there[kept], last[kept]

    def _write(
        self,
        log_probabilities: Float[Tensor, "rows vocabulary"],
        chosen: Int[Tensor, " rows"],
        rows: Int[Tensor, " rows"],
        place: int,
    ) -> None:
        gain = log_probabilities.gather(1, chosen.unsqueeze(1)).squeeze(1)
        # In one tensor, for one wait; such a number holds a word's exactly.
        words, gains = torch.stack([chosen.double(), gain.double()]).cpu()
        running = self.is_open[rows]
        check_numbers(gains[running], rows[running], place + 1)
        self.words[rows, place] = words.long()
        self.gains[rows, place] = gains.float()
        self.lengths[rows] += running
        self.is_open[rows] = (
            running & (words[:, None] != self._ends).all(1) & (place + 1 < self._limits[rows])
        )
        if self.shown:
            best = log_probabilities.topk(min(self.shown, log_probabilities.shape[1]))
            ranked = zip(rows.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
            self.alternatives.append(
                {
                    row: [(word, gain) for word, gain in zip(*both, strict=True) if gain > -torch.inf]
                    for row, *both in ranked
                }
            )

    def hypotheses(self, alpha: float = 0.0) -> list[Hypothesis]:
        """What was said of each sentence, in their order."""
        rows = zip(self.words.tolist(), self.gains.tolist(), self.lengths.tolist(), strict=True)
        ends = self._guide.ends
        return [_hypothesis(words[:length], gains[:length], ends, alpha) for words, gains, length in rows]


def single_path(
    step: Step[Remembered], state: Remembered, guide: Guide, choose: Choose, alpha: float
) -> list[Hypothesis]:
    """One hypothesis for each sentence, in their order."""
    walk = Walk(step, state, guide, choose)
    for _ in walk:
        pass
    return walk.hypotheses(alpha)


def most_probable(
    log_probabilities: Float[Tensor, "rows vocabulary"], rows: Int[Tensor, " rows"], place: int
) -> Int[Tensor, " rows"]:
    """The choice of greedy search."""
    return log_probabilities.argmax(-1)


def _hypothesis(words: list[int], gains: list[float], ends: Sequence[int], alpha: float) -> Hypothesis:
    total = sum(gains)
    complete = words[-1] in ends
    return Hypothesis(
        words=words[:-1] if complete else words,
        score=total / length_penalty(len(words), alpha),
        log_probability=total,
        log_probabilities=gains,
        complete=complete,
    )
