"""The loop that follows one path a sentence; how a token is chosen is given to it."""

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.constraints import Constraints, check_numbers
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.decoding.penalties import length_normalizer
from clearhead.decoding.step import Remembered, Step

# From log-probabilities, the sentence of each row and the position in it, to one token a row.
Choose = Callable[[Float[Tensor, "rows vocabulary"], Int[Tensor, " rows"], int], Int[Tensor, " rows"]]

# Dropping rows copies what the model remembers of the others: done when this share of the rows is idle.
IDLE_SHARE = 0.25


class DecodeLoop:
    """One path a sentence, token by token: who iterates over its positions sees them grow, and may end some.

    So many `shown` tokens, the most probable, are kept beside each that is chosen. The books are kept by the
    processor: a GPU is waited for once a step.
    """

    def __init__(
        self,
        step: Step[Remembered],
        state: Remembered,
        constraints: Constraints,
        choose: Choose,
        shown: int = 0,
    ):
        self._step, self._state, self._guide, self._choose = step, state, constraints, choose
        self.shown = shown
        sentences, max_length = constraints.sentences, constraints.max_length
        self.tokens = torch.full((sentences, max_length), constraints.ends[0])
        self.log_probs = torch.zeros(sentences, max_length)
        """The log-probability of each token."""
        self.alternatives: list[dict[int, list[tuple[int, float]]]] = []
        """The most probable tokens at each position and their log-probabilities, by sentence."""
        self.lengths = torch.zeros(sentences, dtype=torch.long)
        self.is_open = torch.ones(sentences, dtype=torch.bool)
        self._limits, self._ends = constraints.limits.cpu(), torch.tensor(constraints.ends)

    def end(self, sentences: Sequence[int]) -> None:
        """These sentences end where they are."""
        self.is_open[list(sentences)] = False

    @torch.no_grad()
    def __iter__(self) -> Iterator[int]:
        """Each position once its tokens are there."""
        constraints = self._guide
        rows = torch.arange(constraints.sentences)
        there, last = rows.to(constraints.device), constraints.first
        said = self.tokens.to(constraints.device, copy=True)
        for position in range(constraints.max_length):
            logits = self._step(last, self._state)
            log_probabilities = constraints.log_probabilities(logits, said[there, :position], there)
            last = self._choose(log_probabilities, there, position)
            said[there, position] = last
            self._write(log_probabilities, last, rows, position)
            yield position
            running = self.is_open[rows]
            count = int(running.sum())
            if count == 0:
                return
            if count <= (1 - IDLE_SHARE) * len(rows):
                rows, kept = rows[running], running.nonzero().squeeze(1).to(constraints.device)
                self._state.select(kept)
                there, last = there[kept], last[kept]

    def _write(
        self,
        log_probabilities: Float[Tensor, "rows vocabulary"],
        chosen: Int[Tensor, " rows"],
        rows: Int[Tensor, " rows"],
        position: int,
    ) -> None:
        log_prob = log_probabilities.gather(1, chosen.unsqueeze(1)).squeeze(1)
        # In one tensor, for one wait; such a number holds a token's exactly.
        tokens, log_probs = torch.stack([chosen.double(), log_prob.double()]).cpu()
        running = self.is_open[rows]
        check_numbers(log_probs[running], rows[running], position + 1)
        self.tokens[rows, position] = tokens.long()
        self.log_probs[rows, position] = log_probs.float()
        self.lengths[rows] += running
        self.is_open[rows] = (
            running & (tokens[:, None] != self._ends).all(1) & (position + 1 < self._limits[rows])
        )
        if self.shown:
            best = log_probabilities.topk(min(self.shown, log_probabilities.shape[1]))
            ranked = zip(rows.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
            self.alternatives.append(
                {
                    row: [
                        (token, log_prob)
                        for token, log_prob in zip(*both, strict=True)
                        if log_prob > -torch.inf
                    ]
                    for row, *both in ranked
                }
            )

    def hypotheses(self, length_penalty: float = 0.0) -> list[Hypothesis]:
        """What was said of each sentence, in their order."""
        rows = zip(self.tokens.tolist(), self.log_probs.tolist(), self.lengths.tolist(), strict=True)
        ends = self._guide.ends
        return [
            _hypothesis(tokens[:length], log_probs[:length], ends, length_penalty)
            for tokens, log_probs, length in rows
        ]


def single_path(
    step: Step[Remembered], state: Remembered, constraints: Constraints, choose: Choose, length_penalty: float
) -> list[Hypothesis]:
    """One hypothesis for each sentence, in their order."""
    walk = DecodeLoop(step, state, constraints, choose)
    for _ in walk:
        pass
    return walk.hypotheses(length_penalty)


def most_probable(
    log_probabilities: Float[Tensor, "rows vocabulary"], rows: Int[Tensor, " rows"], position: int
) -> Int[Tensor, " rows"]:
    """The choice of greedy search."""
    return log_probabilities.argmax(-1)


def _hypothesis(
    tokens: list[int], log_probs: list[float], ends: Sequence[int], length_penalty: float
) -> Hypothesis:
    sum_log_prob = sum(log_probs)
    complete = tokens[-1] in ends
    return Hypothesis(
        tokens=tokens[:-1] if complete else tokens,
        score=sum_log_prob / length_normalizer(len(tokens), length_penalty),
        log_probability=sum_log_prob,
        log_probabilities=log_probs,
        complete=complete,
    )
