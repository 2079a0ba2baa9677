"""Drawing sentences at random from a model, and the filters that keep the draw sensible."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.constraints import Constraints
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.decoding.loop import Choose, single_path
from clearhead.decoding.step import Remembered, Step
from clearhead.errors import SettingsError

# Below it, single precision cannot hold what the log-probabilities become.
SMALLEST_TEMPERATURE = 1e-6
# Below what torch takes: the number of a text is added to it.
MAX_SEED = 2**62


def sample(
    step: Step[Remembered],
    state: Remembered,
    constraints: Constraints,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> list[Hypothesis]:
    """One random sentence for each; the same seed gives the same one, whatever else is in the batch.

    The log-probabilities of the hypotheses are the model's own, before temperature and filters.
    """
    return single_path(
        step,
        state,
        constraints,
        sampled(constraints, seeds, temperature, top_k, top_p, min_p),
        length_penalty=0.0,
    )


def sampled(
    constraints: Constraints,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Choose:
    """The choice at random among what the filters leave, a seed a sentence."""
    check_sampling(temperature, top_k, top_p, min_p)
    if len(seeds) != constraints.sentences:
        raise SettingsError(f"seeds: {len(seeds)} seeds for {constraints.sentences} sentences; give one each")
    chances = _chances(seeds, constraints.max_length).to(constraints.device)

    def choose(
        log_probabilities: Float[Tensor, "rows vocabulary"], rows: Int[Tensor, " rows"], position: int
    ) -> Int[Tensor, " rows"]:
        scores = log_probabilities / temperature
        if top_k is not None:
            scores = keep_top_k(scores, top_k)
        if top_p < 1:
            scores = keep_top_p(scores, top_p)
        if min_p > 0:
            scores = keep_min_p(scores, min_p)
        return draw(scores.softmax(-1), chances[rows, position])

    return choose


def keep_top_k(scores: Float[Tensor, "rows vocabulary"], k: int) -> Float[Tensor, "rows vocabulary"]:
    """Only the k best tokens stay possible (Fan et al. 2018); all that equal the last of them stay too."""
    least = scores.topk(min(k, scores.shape[1]), dim=-1).values[:, -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def keep_top_p(scores: Float[Tensor, "rows vocabulary"], p: float) -> Float[Tensor, "rows vocabulary"]:
    """Only the fewest tokens that together hold a probability of p stay possible (Holtzman et al. 2020)."""
    ranked, order = scores.sort(dim=-1, descending=True, stable=True)
    probabilities = ranked.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    # A p that single precision takes for 0 would leave not even the best.
    least = max(p, torch.finfo(before.dtype).tiny)
    return scores.scatter(1, order, ranked.masked_fill(before >= least, -torch.inf))


def keep_min_p(scores: Float[Tensor, "rows vocabulary"], p: float) -> Float[Tensor, "rows vocabulary"]:
    """Only tokens at least p times as probable as the best stay possible (Nguyen et al. 2024)."""
    best = scores.amax(-1, keepdim=True)
    return scores.masked_fill((scores - best).exp() < p, -torch.inf)


def draw(
    probabilities: Float[Tensor, "rows vocabulary"], chances: Float[Tensor, " rows"]
) -> Int[Tensor, " rows"]:
    """The token at which the probabilities, summed up in order, pass the row's chance in [0, 1)."""
    summed = probabilities.double().cumsum(-1)
    marks = chances.double().unsqueeze(1) * summed[:, -1:]
    return torch.searchsorted(summed, marks, right=True).squeeze(1).clamp(max=probabilities.shape[1] - 1)


def _chances(seeds: Sequence[int], max_length: int) -> Float[Tensor, "sentences longest"]:
    """The random numbers of every row from its own generator, always on the CPU: equal on every device."""
    generator = torch.Generator()
    rows = [torch.rand(max_length, generator=generator.manual_seed(seed)) for seed in seeds]
    return torch.stack(rows) if rows else torch.empty(0, max_length)


def check_sampling(temperature: float, top_k: int | None, top_p: float, min_p: float) -> None:
    """Refuses what cannot be drawn by, all at once."""
    problems = []
    if not SMALLEST_TEMPERATURE <= temperature < math.inf:
        problems.append(
            f"temperature: {temperature} should be finite and at least {SMALLEST_TEMPERATURE}; "
            "greedy search is its limit"
        )
    if top_k is not None and top_k < 1:
        problems.append(f"top_k: {top_k} should be at least 1")
    if not 0 < top_p <= 1:
        problems.append(f"top_p: {top_p} should be greater than 0 and at most 1")
    if not 0 <= min_p <= 1:
        problems.append(f"min_p: {min_p} should be from 0 to 1")
    if problems:
        raise SettingsError(*problems)
