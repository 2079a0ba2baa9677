"""The searches for the most probable sentence: greedy, and with a beam."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.decoding.beam import Paths, Pool, best_continuations
from clearhead.decoding.constraints import Constraints, check_numbers
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.decoding.loop import most_probable, single_path
from clearhead.decoding.penalties import length_normalizer
from clearhead.decoding.step import Remembered, Step
from clearhead.decoding.tree import Tree
from clearhead.errors import SettingsError

# Far beyond use; the penalty of a long sentence still fits single precision.
MAX_LENGTH_PENALTY = 10


def greedy_search(
    step: Step[Remembered],
    state: Remembered,
    constraints: Constraints,
    length_penalty: float = 0.0,
) -> list[Hypothesis]:
    """The most probable token at every step, to the end or the longest length; `alpha` scales the score."""
    check_search(length_penalty=length_penalty)
    return single_path(step, state, constraints, most_probable, length_penalty)


@torch.no_grad()
def beam_search(
    step: Step[Remembered],
    state: Remembered,
    constraints: Constraints,
    beam: int,
    length_penalty: float = 0.6,
    nbest: int = 1,
    tree: Tree | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of each sentence, best first; those cut off by the longest length last.

    The state comes with one row a sentence; from the second step on, the rows of a sentence lie together.
    At every step the 2 × `beam` best continuations are looked at, so that `beam` open ones remain however
    many end; an ended one counts if it is among the `beam` best. A beam of one stops at its first end, as
    greedy search does. A `tree` is told all that is looked at.
    """
    check_search(beam, nbest, length_penalty)
    sentences, device = constraints.sentences, constraints.device
    pool = Pool(sentences, nbest, constraints.end, device)
    penalties = torch.tensor(
        [length_normalizer(n, length_penalty) for n in range(constraints.max_length + 1)], device=device
    )
    active = torch.arange(sentences, device=device)
    sum_log_probs = torch.zeros(sentences, 1, device=device)
    paths = Paths.empty(sentences, device)
    last = constraints.first

    for length in range(1, constraints.max_length + 1):
        width = sum_log_probs.shape[1]
        logits = step(last, state)
        log_probabilities = constraints.log_probabilities(
            logits, paths.tokens, active.repeat_interleave(width)
        )
        found = best_continuations(log_probabilities, sum_log_probs, 2 * beam)
        check_numbers(found.sum_log_probs[:, 0], active, length)

        ended = found.tokens == constraints.end
        among_best = torch.arange(ended.shape[1], device=device) < beam
        pool.add(ended & among_best, found, paths, active, penalties[length])

        room = min(beam, width * (logits.shape[1] - 1))
        kept = ended.byte().argsort(dim=1, stable=True)[:, :room]
        if tree:
            tree.grow(found, kept, active, length - 1, penalties[length])
        found = found.at(kept)
        bar, limits = pool.bar[active], constraints.limits[active]
        stop = settled(bar, found.sum_log_probs[:, 0], penalties[limits])
        if beam == 1:
            stop |= bar.isfinite()
        if length >= constraints.shortest:
            pool.add((limits == length).unsqueeze(1), found, paths, active, penalties[length])
            stop |= limits == length

        going = (~stop).nonzero().squeeze(1)
        if tree:
            tree.follow(going, limits == length)
        if len(going) == 0:
            break
        found, active = found.of(going), active[going]
        sum_log_probs, parents, last = found.sum_log_probs, found.parents.flatten(), found.tokens.flatten()
        paths = paths.extend(parents, last, found.log_probs.flatten())
        state.select(parents)
    if tree:
        tree.close(pool.finished)
    return pool.finished


def settled(
    bar: Float[Tensor, " sentences"],
    best_open: Float[Tensor, " sentences"],
    largest_penalty: Float[Tensor, " sentences"],
) -> Bool[Tensor, " sentences"]:
    """Whether no open hypothesis can still beat the last of the n best finished ones.

    A log-probability is never positive and only falls, and the penalty it is divided by only grows up to the
    longest length: no descendant of an open hypothesis scores above best_open / largest_penalty.
    """
    return bar >= best_open / largest_penalty


def check_search(beam: int = 1, nbest: int = 1, length_penalty: float = 0.0) -> None:
    """Refuses what no search can do."""
    if beam < 1:
        raise SettingsError(f"beam: {beam} should be at least 1")
    if not 1 <= nbest <= beam:
        raise SettingsError(f"nbest: {nbest} should be from 1 to the beam, {beam}; widen the beam for more")
    if not 0 <= length_penalty <= MAX_LENGTH_PENALTY:
        raise SettingsError(
            f"length_penalty: {length_penalty} should be from 0 to {MAX_LENGTH_PENALTY} (0 leaves lengths alone)"
        )
