"""What a beam search holds: paths so far, their best continuations, and the pool of what is finished."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.decoding.hypothesis import Hypothesis


class Paths(NamedTuple):
    """The tokens of the open hypotheses and the log-probability of each."""

    tokens: Int[Tensor, "rows tokens"]
    log_probs: Float[Tensor, "rows tokens"]

    @staticmethod
    def empty(rows: int, device: torch.device | str) -> "Paths":
        return Paths(
            torch.empty(rows, 0, dtype=torch.long, device=device), torch.empty(rows, 0, device=device)
        )

    def extend(
        self, parents: Int[Tensor, " new"], tokens: Int[Tensor, " new"], log_probs: Float[Tensor, " new"]
    ) -> "Paths":
        return Paths(
            torch.cat([self.tokens[parents], tokens.unsqueeze(1)], 1),
            torch.cat([self.log_probs[parents], log_probs.unsqueeze(1)], 1),
        )


class Continuations(NamedTuple):
    """Paths with one more token, best first; a parent is the row of the path that is continued."""

    sum_log_probs: Float[Tensor, "sentences positions"]
    parents: Int[Tensor, "sentences positions"]
    tokens: Int[Tensor, "sentences positions"]
    log_probs: Float[Tensor, "sentences positions"]

    def at(self, positions: Int[Tensor, "sentences chosen"]) -> "Continuations":
        return Continuations(*(field.gather(1, positions) for field in self))

    def of(self, sentences: Int[Tensor, " chosen"]) -> "Continuations":
        return Continuations(*(field[sentences] for field in self))


def best_continuations(
    log_probabilities: Float[Tensor, "rows vocabulary"],
    sum_log_probs: Float[Tensor, "sentences beam"],
    positions: int,
) -> Continuations:
    """The best `positions` of all continuations of a sentence, or all where there are fewer."""
    sentences, beam = sum_log_probs.shape
    # No more than `positions` of one row can be among the best of its sentence.
    log_probs, tokens = log_probabilities.topk(min(positions, log_probabilities.shape[1]), dim=-1)
    each = log_probs.shape[1]
    log_probs, tokens = log_probs.view(sentences, -1), tokens.view(sentences, -1)
    summed = sum_log_probs.repeat_interleave(each, 1) + log_probs
    # Stable, so that equal totals stay in the order of the rows.
    ranked, order = summed.sort(dim=1, descending=True, stable=True)
    ranked, order = ranked[:, :positions], order[:, :positions]
    first_rows = beam * torch.arange(sentences, device=sum_log_probs.device).unsqueeze(1)
    return Continuations(
        ranked, first_rows + order // each, tokens.gather(1, order), log_probs.gather(1, order)
    )


class Pool:
    """The `nbest` best finished hypotheses of each sentence, best first; those without </s> come last."""

    def __init__(self, sentences: int, nbest: int, end: int, device: torch.device | str):
        self.nbest = nbest
        self.end = end
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.bar = torch.full((sentences,), -torch.inf, device=device)
        """The score of the last of the `nbest`, or minus infinity: what a newcomer must beat."""

    def add(
        self,
        chosen: Bool[Tensor, "sentences positions"],
        found: Continuations,
        paths: Paths,
        sentences: Int[Tensor, " sentences"],
        penalty: Float[Tensor, ""],
    ) -> None:
        """Takes in those of the chosen that pass the bar; they are few, so Python may touch each."""
        scores = found.sum_log_probs / penalty
        chosen = chosen & (scores > self.bar[sentences].unsqueeze(1))
        if not chosen.any():
            return
        numbers = sentences.unsqueeze(1).expand_as(chosen)[chosen].tolist()
        tokens, log_probs = paths.extend(found.parents[chosen], found.tokens[chosen], found.log_probs[chosen])
        columns = (scores[chosen], found.sum_log_probs[chosen], tokens, log_probs)
        for number, score, sum_log_prob, path, steps in zip(
            numbers, *(column.tolist() for column in columns), strict=True
        ):
            complete = path[-1] == self.end
            hypothesis = Hypothesis(path[:-1] if complete else path, score, sum_log_prob, steps, complete)
            self._insert(self.finished[number], hypothesis)
        self.bar[numbers] = torch.tensor([self._bar(number) for number in numbers], device=self.bar.device)

    def _insert(self, finished: list[Hypothesis], hypothesis: Hypothesis) -> None:
        finished.append(hypothesis)
        finished.sort(key=lambda one: (one.complete, one.score), reverse=True)
        del finished[self.nbest :]

    def _bar(self, number: int) -> float:
        finished = self.finished[number]
        return finished[-1].score if len(finished) == self.nbest else -torch.inf
