"""The data of a beam search: open hypotheses, their best continuations, and the finished hypotheses."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.decoding.step import Hypothesis, Logits
from clearhead.decoding.topk import has_many_chunks, largest_sums


class OpenHypotheses(NamedTuple):
    """The tokens of the open hypotheses and the log-probability of each token."""

    tokens: Int[Tensor, "rows tokens"]
    log_probs: Float[Tensor, "rows tokens"]

    @staticmethod
    def empty(rows: int, device: torch.device | str) -> "OpenHypotheses":
        tokens = torch.empty(rows, 0, dtype=torch.long, device=device)
        return OpenHypotheses(tokens, torch.empty(rows, 0, device=device))

    def extend(
        self, parents: Int[Tensor, " new"], tokens: Int[Tensor, " new"], log_probs: Float[Tensor, " new"]
    ) -> "OpenHypotheses":
        """The rows `parents`, each with one more token."""
        return OpenHypotheses(
            torch.cat([self.tokens[parents], tokens.unsqueeze(1)], 1),
            torch.cat([self.log_probs[parents], log_probs.unsqueeze(1)], 1),
        )


class Candidates(NamedTuple):
    """Hypotheses with one more token, best first; `parents` are the rows they continue."""

    sum_log_probs: Float[Tensor, "sentences candidates"]
    parents: Int[Tensor, "sentences candidates"]
    tokens: Int[Tensor, "sentences candidates"]
    log_probs: Float[Tensor, "sentences candidates"]

    def gather(self, columns: Int[Tensor, "sentences chosen"]) -> "Candidates":
        """These candidates of each sentence."""
        return Candidates(*(field.gather(1, columns) for field in self))

    def select(self, sentences: Int[Tensor, " chosen"]) -> "Candidates":
        """The candidates of these sentences."""
        return Candidates(*(field[sentences] for field in self))


def best_candidates(
    log_probs: Logits, sum_log_probs: Float[Tensor, "sentences beam"], count: int
) -> Candidates:
    """The `count` best continuations of each sentence, or all if there are fewer."""
    sentences, beam = sum_log_probs.shape
    if has_many_chunks(log_probs, count):
        sums, parents, tokens = largest_sums(log_probs, sum_log_probs, count)
        return Candidates(sums, parents, tokens, log_probs[parents, tokens])
    # At most `count` tokens of one row can be among the best of its sentence.
    best, tokens = log_probs.topk(min(count, log_probs.shape[1]))
    per_row = best.shape[1]
    best, tokens = best.view(sentences, -1), tokens.view(sentences, -1)
    summed = sum_log_probs.repeat_interleave(per_row, 1) + best
    # A stable sort keeps equal sums in the order of their rows.
    ranked, order = summed.sort(dim=1, descending=True, stable=True)
    ranked, order = ranked[:, :count], order[:, :count]
    first_rows = beam * torch.arange(sentences, device=sum_log_probs.device).unsqueeze(1)
    return Candidates(ranked, first_rows + order // per_row, tokens.gather(1, order), best.gather(1, order))


def in_parents_rows(parents: Int[Tensor, "sentences beam"]) -> Int[Tensor, "sentences beam"]:
    """An order of hypotheses in which the first child of each parent takes its row, so that few rows move."""
    same = parents[:, :, None] == parents[:, None]
    first = ~same.tril(-1).any(-1)
    taken = torch.zeros_like(parents).scatter_(1, parents, 1)
    free = taken.argsort(dim=1, stable=True).gather(1, (~first).cumsum(1).sub_(1).clamp_(min=0))
    return torch.where(first, parents, free).argsort(1)


class FinishedHypotheses:
    """The `nbest` best finished hypotheses of each sentence, best first; those without </s> come last."""

    def __init__(self, sentences: int, nbest: int, end: int, device: torch.device | str):
        self.nbest, self.end = nbest, end
        self.by_sentence: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.threshold = torch.full((sentences,), -torch.inf, device=device)
        """The score a new hypothesis must exceed: that of the last of the `nbest`, or minus infinity."""

    def add(
        self,
        chosen: Bool[Tensor, "sentences candidates"],
        candidates: Candidates,
        opened: OpenHypotheses,
        sentences: Int[Tensor, " sentences"],
        normalizer: Float[Tensor, ""],
    ) -> None:
        """Adds the chosen candidates that exceed the threshold; they are few, so a Python loop will do."""
        scores = candidates.sum_log_probs / normalizer
        chosen = chosen & (scores > self.threshold[sentences].unsqueeze(1))
        if not chosen.any():
            return
        numbers = sentences.unsqueeze(1).expand_as(chosen)[chosen].tolist()
        parents, tokens, log_probs = (column[chosen] for column in candidates[1:])
        paths = opened.extend(parents, tokens, log_probs)
        columns = (scores[chosen], candidates.sum_log_probs[chosen], *paths, parents)
        for number, score, sum_log_prob, path, steps, row in zip(
            numbers, *(column.tolist() for column in columns), strict=True
        ):
            complete, finished = path[-1] == self.end, self.by_sentence[number]
            path = path[:-1] if complete else path
            finished.append(Hypothesis(path, score, sum_log_prob, steps, complete, row))
            finished.sort(key=lambda one: (one.complete, one.score), reverse=True)
            del finished[self.nbest :]
        last = [self.by_sentence[number][self.nbest - 1 :] for number in numbers]
        thresholds = [hypotheses[0].score if hypotheses else -torch.inf for hypotheses in last]
        self.threshold[numbers] = torch.tensor(thresholds, device=self.threshold.device)
