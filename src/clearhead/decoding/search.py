"""Greedy search and beam search for the most probable sentence."""

import torch

from clearhead.decoding.beam import FinishedHypotheses, OpenHypotheses, best_candidates, in_parents_rows
from clearhead.decoding.constraints import Constraints, check_finite
from clearhead.decoding.loop import decode
from clearhead.decoding.penalties import length_normalizer
from clearhead.decoding.step import Hypothesis, StateT, Step
from clearhead.decoding.topk import most_probable
from clearhead.decoding.tree import Tree
from clearhead.errors import SettingsError
from clearhead.layers.searching import begin_step, end_search, rows_moved

# Far beyond useful values, and the normalizer of a long sentence still fits single precision.
MAX_LENGTH_PENALTY = 10


def greedy_search(
    step: Step[StateT], state: StateT, constraints: Constraints, length_penalty: float = 0.0
) -> list[Hypothesis]:
    """Sentences of the most probable token at every step; `length_penalty` affects only their scores."""
    check_search(length_penalty=length_penalty)
    return decode(step, state, constraints, most_probable, length_penalty)


@torch.no_grad()
def beam_search(
    step: Step[StateT],
    state: StateT,
    constraints: Constraints,
    beam: int,
    length_penalty: float = 0.6,
    nbest: int = 1,
    tree: Tree | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of each sentence, best first; those cut off at their maximum length last.

    The state has one row per sentence at first, then a group of rows per sentence. Each step considers the
    2 × `beam` best candidates, so that `beam` open ones remain even if many end; an ended one counts if it is
    among the `beam` best. A beam of 1 stops at the first end, as greedy search does. A `tree` records all
    candidates.
    """
    check_search(beam, nbest, length_penalty)
    sentences, device = constraints.sentences, constraints.device
    finished = FinishedHypotheses(sentences, nbest, constraints.end, device)
    lengths = range(constraints.max_length + 1)
    normalizers = torch.tensor([length_normalizer(n, length_penalty) for n in lengths], device=device)
    active = torch.arange(sentences, device=device)
    sum_log_probs = torch.zeros(sentences, 1, device=device)
    opened = OpenHypotheses.empty(sentences, device)
    last, length = constraints.first, 0

    for length in range(1, constraints.max_length + 1):
        width = sum_log_probs.shape[1]
        begin_step()
        logits = step(last, state)
        log_probs = constraints.log_probs(logits, opened.tokens, active.repeat_interleave(width))
        candidates = best_candidates(log_probs, sum_log_probs, 2 * beam)
        check_finite(candidates.sum_log_probs[:, 0], active, length)

        ended = candidates.tokens == constraints.end
        among_best = torch.arange(ended.shape[1], device=device) < beam
        finished.add(ended & among_best, candidates, opened, active, normalizers[length])

        count = min(beam, width * (logits.shape[1] - 1))
        kept = ended.byte().argsort(dim=1, stable=True)[:, :count]
        if tree:
            tree.grow(candidates, kept, active, length - 1, normalizers[length])
        candidates = candidates.gather(kept)
        threshold, limits = finished.threshold[active], constraints.limits[active]
        # A sum of log-probabilities only falls and its normalizer only grows up to the maximum length, so no
        # continuation of the best open hypothesis can score above this quotient.
        stop = threshold >= candidates.sum_log_probs[:, 0] / normalizers[limits]
        if beam == 1:
            stop |= threshold.isfinite()
        if length >= constraints.min_limit:
            at_limit = (limits == length).unsqueeze(1)
            finished.add(at_limit, candidates, opened, active, normalizers[length])
            stop |= limits == length

        running = (~stop).nonzero().squeeze(1)
        if tree:
            tree.follow(running, limits == length)
        if len(running) == 0:
            break
        candidates, active = candidates.select(running), active[running]
        # A hypothesis in its parent's row need not be copied; the tree needs them best first.
        if width == count and not tree:
            candidates = candidates.gather(in_parents_rows(candidates.parents % width))
        sum_log_probs = candidates.sum_log_probs
        parents, last = candidates.parents.flatten(), candidates.tokens.flatten()
        opened = opened.extend(parents, last, candidates.log_probs.flatten())
        state.select(parents)
        rows_moved(parents)
    best = [one for hypotheses in finished.by_sentence for one in hypotheses[:1]]
    end_search(length, [(len(one.log_probs), one.row) for one in best])
    if tree:
        tree.close(finished.by_sentence)
    return finished.by_sentence


def check_search(beam: int = 1, nbest: int = 1, length_penalty: float = 0.0) -> None:
    """Raises SettingsError if a value is out of range."""
    if beam < 1:
        raise SettingsError(f"beam: {beam} should be at least 1")
    if not 1 <= nbest <= beam:
        raise SettingsError(f"nbest: {nbest} should be from 1 to the beam, {beam}; widen the beam for more")
    if not 0 <= length_penalty <= MAX_LENGTH_PENALTY:
        raise SettingsError(
            f"length_penalty: {length_penalty} should be from 0 to {MAX_LENGTH_PENALTY} (0 disables it)"
        )
