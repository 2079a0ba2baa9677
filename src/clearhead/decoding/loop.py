"""The decoding loop with one hypothesis per sentence; the choice of tokens is passed in."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from clearhead.accel.host import HostCopy
from clearhead.decoding.constraints import Constraints, check_finite
from clearhead.decoding.penalties import length_normalizer
from clearhead.decoding.step import Hypothesis, Logits, Rows, StateT, Step
from clearhead.layers.searching import begin_step, end_search, is_listened_to, rows_moved

Choose = Callable[[Logits, Rows, int], Rows]
"""From log-probabilities, the sentence of each row and the position to one token per row."""

# Dropping finished rows copies the caches of the others, so it waits until this share is finished.
IDLE_SHARE = 0.25


@dataclass(frozen=True)
class _Chosen:
    """The tokens chosen at a position, on their way to the host."""

    log_probs: Logits
    rows: Rows
    position: int
    copy: HostCopy

    @staticmethod
    def of(log_probs: Logits, tokens: Rows, rows: Rows, position: int) -> "_Chosen":
        log_prob = log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
        # One tensor, for a single copy; a double represents token ids exactly.
        both = torch.stack([tokens.double(), log_prob.double()])
        return _Chosen(log_probs, rows, position, HostCopy(both))


class DecodeLoop:
    """Decodes one hypothesis per sentence; iterate over the positions, and `stop` sentences early.

    With `alternatives`, it keeps that many of the most probable tokens at each position. Results are kept on
    the CPU. A GPU is one position ahead, so that it need not wait for the host.
    """

    def __init__(
        self,
        step: Step[StateT],
        state: StateT,
        constraints: Constraints,
        choose: Choose,
        alternatives: int = 0,
    ):
        self._step, self._state, self._constraints, self._choose = step, state, constraints, choose
        self._alternatives = alternatives
        sentences, max_length = constraints.sentences, constraints.max_length
        self.tokens = torch.full((sentences, max_length), constraints.ends[0])
        self.log_probs = torch.zeros(sentences, max_length)
        """The log-probability of each token."""
        self.alternatives: list[dict[int, list[tuple[int, float]]]] = []
        """The most probable tokens and their log-probabilities at each position, by sentence."""
        self.lengths = torch.zeros(sentences, dtype=torch.long)
        self.is_open = torch.ones(sentences, dtype=torch.bool)
        self.rows = torch.arange(sentences)
        """The row of each sentence in its last step."""
        self._limits, self._ends = constraints.limits.cpu(), torch.tensor(constraints.ends)

    def stop(self, sentences: Sequence[int]) -> None:
        """Ends these sentences at their current length."""
        self.is_open[list(sentences)] = False

    @torch.no_grad()
    def __iter__(self) -> Iterator[int]:
        """Yields each position once its tokens are chosen."""
        constraints = self._constraints
        rows = torch.arange(constraints.sentences)
        device_rows, last = rows.to(constraints.device), constraints.first
        history = self.tokens.to(constraints.device, copy=True)
        steps_ahead = _steps_ahead(constraints.device)
        chosen: deque[_Chosen] = deque()
        for position in range(constraints.max_length + steps_ahead):
            if position < constraints.max_length:
                begin_step()
                logits = self._step(last, self._state)
                # Until sentences are dropped, a view is enough.
                at = slice(None) if len(rows) == constraints.sentences else device_rows
                log_probs = constraints.log_probs(logits, history[at, :position], device_rows)
                last = self._choose(log_probs, device_rows, position)
                history[at, position] = last
                chosen.append(_Chosen.of(log_probs, last, rows, position))
            if position < steps_ahead or not chosen:
                continue
            self._record(chosen.popleft())
            yield position - steps_ahead
            running = self.is_open[rows]
            count = int(running.sum())
            if count == 0:
                break
            if count <= (1 - IDLE_SHARE) * len(rows):
                rows, kept = rows[running], running.nonzero().squeeze(1).to(constraints.device)
                self._state.select(kept)
                rows_moved(kept)
                device_rows, last = device_rows[kept], last[kept]
        lengths = self.lengths.tolist()
        end_search(max(lengths, default=0), list(zip(lengths, self.rows.tolist(), strict=True)))

    def _record(self, one: "_Chosen") -> None:
        rows, position, log_probs = one.rows, one.position, one.log_probs
        tokens, chosen_log_probs = one.copy.wait()
        running = self.is_open[rows]
        check_finite(chosen_log_probs[running], rows[running], position + 1)
        self.tokens[rows, position] = tokens.long()
        self.log_probs[rows, position] = chosen_log_probs.float()
        self.lengths[rows] += running
        self.rows[rows[running]] = running.nonzero().squeeze(1)
        ended = (tokens[:, None] == self._ends).any(1)
        self.is_open[rows] = running & ~ended & (position + 1 < self._limits[rows])
        if self._alternatives:
            best = log_probs.topk(min(self._alternatives, log_probs.shape[1]))
            ranked = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            possible = [[one for one in zip(*row, strict=True) if one[1] > -torch.inf] for row in ranked]
            numbered = zip(rows.tolist(), possible, running.tolist(), strict=True)
            self.alternatives.append({row: found for row, found, is_open in numbered if is_open})

    def hypotheses(self, length_penalty: float = 0.0) -> list[Hypothesis]:
        """The hypothesis of each sentence so far."""
        found = []
        columns = (self.tokens, self.log_probs, self.lengths, self.rows)
        for row, row_log_probs, length, last in zip(*(one.tolist() for one in columns), strict=True):
            tokens, log_probs = row[:length], row_log_probs[:length]
            complete, sum_log_prob = tokens[-1] in self._constraints.ends, sum(log_probs)
            score = sum_log_prob / length_normalizer(length, length_penalty)
            tokens = tokens[:-1] if complete else tokens
            found.append(Hypothesis(tokens, score, sum_log_prob, log_probs, complete, last))
        return found


def _steps_ahead(device: torch.device) -> int:
    """A GPU computes the next position while the host looks at this one; listeners expect them in turn."""
    return 1 if device.type == "cuda" and not is_listened_to() else 0


def decode(
    step: Step[StateT], state: StateT, constraints: Constraints, choose: Choose, length_penalty: float
) -> list[Hypothesis]:
    """One hypothesis for each sentence, by a decoding loop that runs to its end."""
    loop = DecodeLoop(step, state, constraints, choose)
    for _ in loop:
        pass
    return loop.hypotheses(length_penalty)
