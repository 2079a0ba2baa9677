"""Greedy and beam search on a GPU: one step is one CUDA graph, and the host checks for results now and then.

The search is that of `beam_search` with `nbest` 1 and no constraints but maximum lengths; a beam of 1 is
greedy search. Sentences have slots of fixed shape; see `clearhead.decoding.continuous` for their refilling.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.accel import kernels
from clearhead.accel.graphs import GraphedStep
from clearhead.accel.host import HostCopy
from clearhead.decoding.beam import Candidates, best_candidates
from clearhead.decoding.penalties import length_normalizer
from clearhead.decoding.step import Hypothesis, Logits, Rows
from clearhead.errors import ModelError


@runtime_checkable
class SlotState(Protocol):
    """What the search needs of a state in slots."""

    slots: int
    beam: int
    capacity: int
    lengths: Rows
    table: Int[Tensor, "rows capacity"]

    def advance(self, parents: Rows, running: Tensor) -> None: ...


class Best(NamedTuple):
    """The best finished hypothesis of each slot."""

    score: Float[Tensor, " slots"]
    sum_log_prob: Float[Tensor, " slots"]
    length: Int[Tensor, " slots"]
    """Its tokens, the end included; 0 if there is none."""
    complete: Int[Tensor, " slots"]
    """1 if it has an end."""
    tokens: Int[Tensor, "slots capacity"]
    log_probs: Float[Tensor, "slots capacity"]


class SlotSearch:
    """A search over the slots of a state; `fill` starts sentences, `advance` computes a step of all slots."""

    def __init__(
        self,
        step: Callable[[Rows, SlotState], Logits],
        state: SlotState,
        start: int,
        end: int,
        length_penalty: float,
    ):
        self.step, self.state, self.start, self.end = step, state, start, end
        slots, beam, capacity, device = state.slots, state.beam, state.capacity, state.lengths.device
        with torch.inference_mode(False):
            self.limits = torch.ones(slots, dtype=torch.long, device=device)
            self.running = torch.zeros(slots, dtype=torch.bool, device=device)
            self.broken = torch.zeros_like(self.running)
            self.last = torch.full((slots * beam,), start, device=device)
            self.sums = torch.zeros(slots, beam, device=device)
            self.tokens = torch.zeros(slots * beam, capacity, dtype=torch.long, device=device)
            self.log_probs = torch.zeros(slots * beam, capacity, device=device)
            lengths, score = torch.zeros_like(self.limits), torch.zeros(slots, device=device)
            self.best = Best(
                score,
                score.clone(),
                lengths,
                lengths.clone(),
                torch.zeros(slots, capacity, dtype=torch.long, device=device),
                torch.zeros(slots, capacity, device=device),
            )
            normalizers = [length_normalizer(length, length_penalty) for length in range(capacity + 1)]
            self.normalizers = torch.tensor(normalizers, device=device)
            self.parents = torch.zeros_like(self.last)
            """Where the kernel keeps the parent of each row."""
            # Only the first row of a new sentence counts: the others would repeat it.
            self.first_sums = torch.full((beam,), -torch.inf, device=device).index_fill_(
                0, torch.zeros(1, dtype=torch.long, device=device), 0.0
            )
        self.kept: dict[Any, Any] = {}
        """A cache for the code that fills the slots, such as CUDA graphs by size."""
        self._graphed = GraphedStep(device)

    def fill(self, slots: Int[Tensor, " filled"], limits: Int[Tensor, " filled"]) -> None:
        """Starts a new sentence in each of these slots; their sources are in the state already."""
        beam = self.state.beam
        rows = (slots[:, None] * beam + torch.arange(beam, device=slots.device)).flatten()
        # Plain assignments would copy numbers from the host, which a graph cannot.
        self.limits.index_copy_(0, slots, limits)
        self.running.index_fill_(0, slots, True)
        self.broken.index_fill_(0, slots, False)
        self.last.index_fill_(0, rows, self.start)
        self.sums.index_copy_(0, slots, self.first_sums.expand(len(slots), -1))
        self.best.score.index_fill_(0, slots, -torch.inf)
        self.best.length.index_fill_(0, slots, 0)
        self.best.complete.index_fill_(0, slots, 0)

    def advance(self) -> None:
        """One step of all slots; those that do not run stay as they are."""
        self._graphed(self._advance)

    def finished(self, slots: Int[Tensor, " finished"]) -> "Finished":
        """The results of slots that no longer run; the slots are free for other sentences."""
        # A double represents token ids exactly.
        columns = [field[slots].double().view(len(slots), -1) for field in (self.broken, *self.best)]
        return Finished(HostCopy(torch.cat(columns, 1)), self.state.capacity)

    def _advance(self) -> Tensor:
        logits = self.step(self.last, self.state)
        if kernels.supports_decoding(logits):
            from clearhead.accel.kernels import beam

            if beam.fits(logits.shape[1], self.state.beam):
                beam.advance(logits, self)
                return self.running
        self._advance_by(logits)
        return self.running

    def _advance_by(self, logits: Logits) -> None:
        """The same as the kernel, in torch."""
        state, beam = self.state, self.state.beam
        length = state.lengths.view(-1, beam)[:, 0].contiguous()
        count = 1 if beam == 1 else 2 * beam
        candidates = best_candidates(logits.float().log_softmax(-1), self.sums, count)
        normalizer = self.normalizers[length]
        columns = torch.arange(count, device=length.device)
        ended = candidates.tokens == self.end
        kept = torch.zeros_like(ended, dtype=torch.long)
        if count > 1:
            kept = (ended * count + columns).argsort(1)[:, :beam]
        at_limit = length >= self.limits

        # Of one step all candidates have the same length, so the first that ended is the best.
        scores = candidates.sum_log_probs / normalizer[:, None]
        score, column = scores.masked_fill(~ended | (columns >= beam), -torch.inf).max(1)
        better = self.running & (score > self.best.score)
        cut = self.running & at_limit & ~better & (self.best.complete == 0)
        self._finish(
            better | cut, torch.where(better, column, kept[:, 0]), candidates, scores, length, better
        )

        opened = candidates.gather(kept)
        bound = opened.sum_log_probs[:, 0] / self.normalizers[self.limits]
        stop = (self.best.score >= bound) | at_limit
        if beam == 1:
            stop |= self.best.length > 0
        invalid = self.running & ~candidates.sum_log_probs[:, 0].isfinite()
        self.broken |= invalid
        self.running &= ~(stop | invalid)

        parents, tokens = opened.parents.flatten(), opened.tokens.flatten()
        at = (state.lengths - 1)[:, None]
        self.tokens.copy_(self.tokens[parents].scatter_(1, at, tokens[:, None]))
        self.log_probs.copy_(self.log_probs[parents].scatter_(1, at, opened.log_probs.reshape(-1, 1)))
        self.last.copy_(tokens)
        self.sums.copy_(opened.sum_log_probs)
        state.advance(parents, self.running)

    def _finish(
        self,
        chosen: Tensor,
        column: Tensor,
        candidates: Candidates,
        scores: Tensor,
        length: Tensor,
        complete: Tensor,
    ) -> None:
        """Keeps the candidates of these columns as the best hypotheses of the chosen slots."""
        best, at = self.best, column[:, None]
        last = candidates.gather(at)
        rows, end = last.parents[:, 0], (length - 1)[:, None]
        tokens = self.tokens[rows].scatter_(1, end, last.tokens)
        log_probs = self.log_probs[rows].scatter_(1, end, last.log_probs)
        new = (
            scores.gather(1, at)[:, 0],
            last.sum_log_probs[:, 0],
            length,
            complete.long(),
            tokens,
            log_probs,
        )
        for kept, value in zip(best, new, strict=True):
            kept.copy_(torch.where(chosen if kept.ndim == 1 else chosen[:, None], value, kept))


class Finished:
    """Results on their way to the host."""

    def __init__(self, copy: HostCopy, capacity: int):
        self._copy, self._capacity = copy, capacity

    def hypotheses(self) -> list[Hypothesis]:
        """The hypothesis of each slot; raises ModelError if the model's output was NaN."""
        rows, capacity = self._copy.wait(), self._capacity
        if rows[:, 0].any():
            raise ModelError("the model's output is NaN; its weights or its precision are broken")
        most, found = int(rows[:, 3].max()), []
        tokens = rows[:, 5 : 5 + most].long().tolist()
        log_probs = rows[:, 5 + capacity : 5 + capacity + most].tolist()
        numbers = rows[:, 1:5].tolist()
        for (score, total, length, complete), written, steps in zip(numbers, tokens, log_probs, strict=True):
            end = int(length)
            found.append(Hypothesis(written[: end - int(complete)], score, total, steps[:end], complete > 0))
        return found
