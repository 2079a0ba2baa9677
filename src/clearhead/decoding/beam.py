"""What a beam search holds: paths so far, their best continuations, and the pool of what is finished."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.decoding.hypothesis import Hypothesis


class Paths(NamedTuple):
    """The words of the open hypotheses and the log-probability of each."""

    words: Int[Tensor, "rows words"]
    gains: Float[Tensor, "rows words"]

    @staticmethod
    def empty(rows: int, device: torch.device | str) -> "Paths":
        return Paths(
            torch.empty(rows, 0, dtype=torch.long, device=device), torch.empty(rows, 0, device=device)
        )

    def extend(
        self, parents: Int[Tensor, " new"], words: Int[Tensor, " new"], gains: Float[Tensor, " new"]
    ) -> "Paths":
        return Paths(
            torch.cat([self.words[parents], words.unsqueeze(1)], 1),
            torch.cat([self.gains[parents], gains.unsqueeze(1)], 1),
        )


class Continuations(NamedTuple):
    """Paths with one more word, best first; a parent is the row of the path that is continued."""

    totals: Float[Tensor, "sentences places"]
    parents: Int[Tensor, "sentences places"]
    words: Int[Tensor, "sentences places"]
    gains: Float[Tensor, "sentences places"]

    def at(self, places: Int[Tensor, "sentences chosen"]) -> "Continuations":
        return Continuations(*(field.gather(1, places) for field in self))

    def of(self, sentences: Int[Tensor, " chosen"]) -> "Continuations":
        return Continuations(*(field[sentences] for field in self))


def best_continuations(
    log_probabilities: Float[Tensor, "rows vocabulary"],
    totals: Float[Tensor, "sentences beam"],
    places: int,
) -> Continuations:
    """The best `places` of all continuations of a sentence, or all where there are fewer."""
    sentences, beam = totals.shape
    # No more than `places` of one row can be among the best of its sentence.
    gains, words = log_probabilities.topk(min(places, log_probabilities.shape[1]), dim=-1)
    each = gains.shape[1]
    gains, words = gains.view(sentences, -1), words.view(sentences, -1)
    summed = totals.repeat_interleave(each, 1) + gains
    # Stable, so that equal totals stay in the order of the rows.
    ranked, order = summed.sort(dim=1, descending=True, stable=True)
    ranked, order = ranked[:, :places], order[:, :places]
    first_rows = beam * torch.arange(sentences, device=totals.device).unsqueeze(1)
    return Continuations(ranked, first_rows + order // each, words.gather(1, order), gains.gather(1, order))


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
        chosen: Bool[Tensor, "sentences places"],
        found: Continuations,
        paths: Paths,
        sentences: Int[Tensor, " sentences"],
        penalty: Float[Tensor, ""],
    ) -> None:
        """Takes in those of the chosen that pass the bar; they are few, so Python may touch each."""
        scores = found.totals / penalty
        chosen = chosen & (scores > self.bar[sentences].unsqueeze(1))
        if not chosen.any():
            return
        numbers = sentences.unsqueeze(1).expand_as(chosen)[chosen].tolist()
        words, gains = paths.extend(found.parents[chosen], found.words[chosen], found.gains[chosen])
        columns = (scores[chosen], found.totals[chosen], words, gains)
        for number, score, total, path, steps in zip(
            numbers, *(column.tolist() for column in columns), strict=True
        ):
            complete = path[-1] == self.end
            hypothesis = Hypothesis(path[:-1] if complete else path, score, total, steps, complete)
            self._insert(self.finished[number], hypothesis)
        self.bar[numbers] = torch.tensor([self._bar(number) for number in numbers], device=self.bar.device)

    def _insert(self, finished: list[Hypothesis], hypothesis: Hypothesis) -> None:
        finished.append(hypothesis)
        finished.sort(key=lambda one: (one.complete, one.score), reverse=True)
        del finished[self.nbest :]

    def _bar(self, number: int) -> float:
        finished = self.finished[number]
        return finished[-1].score if len(finished) == self.nbest else -torch.inf
