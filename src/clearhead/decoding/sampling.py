"""Sampling sentences from a model, and the filters for it."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.decoding.constraints import Constraints
from clearhead.decoding.loop import Choose, decode
from clearhead.decoding.step import Hypothesis, Logits, Rows, StateT, Step
from clearhead.errors import SettingsError

# Below it, log-probabilities divided by the temperature overflow single precision.
MIN_TEMPERATURE = 1e-6
# Less than torch allows, because the number of a text is added to the seed.
MAX_SEED = 2**62


def sample(
    step: Step[StateT],
    state: StateT,
    constraints: Constraints,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> list[Hypothesis]:
    """A random sentence for each seed; a seed gives the same sentence in any batch.

    The log-probabilities of the hypotheses are the model's own, before temperature and filters.
    """
    choose = sampler(constraints, seeds, temperature, top_k, top_p, min_p)
    return decode(step, state, constraints, choose, length_penalty=0.0)


def sampler(
    constraints: Constraints,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Choose:
    """The choice of a decoding loop that samples among the tokens that pass the filters."""
    check_sampling(temperature, top_k, top_p, min_p)
    if len(seeds) != constraints.sentences:
        raise SettingsError(f"seeds: {len(seeds)} seeds for {constraints.sentences} sentences; give one each")
    numbers = uniforms(seeds, constraints.max_length).to(constraints.device)

    def choose(log_probs: Logits, rows: Rows, position: int) -> Rows:
        scores = log_probs / temperature
        if top_k is not None:
            scores = keep_top_k(scores, top_k)
        if top_p < 1:
            scores = keep_top_p(scores, top_p)
        if min_p > 0:
            scores = keep_min_p(scores, min_p)
        return inverse_cdf(scores.softmax(-1), numbers[rows, position])

    return choose


def keep_top_k(scores: Logits, k: int) -> Logits:
    """Masks all but the k best tokens (Fan et al. 2018); ties with the last of them stay."""
    least = scores.topk(min(k, scores.shape[1]), dim=-1).values[:, -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def keep_top_p(scores: Logits, p: float) -> Logits:
    """Masks all but the fewest tokens whose probabilities sum to p (Holtzman et al. 2020)."""
    ranked, order = scores.sort(dim=-1, descending=True, stable=True)
    probs = ranked.softmax(-1)
    before = probs.cumsum(-1) - probs
    # A p that underflows to 0 would mask even the best token.
    least = max(p, torch.finfo(before.dtype).tiny)
    return scores.scatter(1, order, ranked.masked_fill(before >= least, -torch.inf))


def keep_min_p(scores: Logits, p: float) -> Logits:
    """Masks tokens less than p times as probable as the best (Nguyen et al. 2024)."""
    best = scores.amax(-1, keepdim=True)
    return scores.masked_fill((scores - best).exp() < p, -torch.inf)


def inverse_cdf(probs: Logits, uniforms: Float[Tensor, " rows"]) -> Rows:
    """The first token at which the cumulative probability exceeds the row's uniform number in [0, 1)."""
    summed = probs.double().cumsum(-1)
    marks = uniforms.double().unsqueeze(1) * summed[:, -1:]
    return torch.searchsorted(summed, marks, right=True).squeeze(1).clamp(max=probs.shape[1] - 1)


def uniforms(seeds: Sequence[int], max_length: int) -> Float[Tensor, "sentences max_length"]:
    """Random numbers in [0, 1) of one generator per sentence, on the CPU so that all devices agree.

    A longer row starts with the numbers of a shorter one.
    """
    generator = torch.Generator()
    rows = [torch.rand(max_length, generator=generator.manual_seed(seed)) for seed in seeds]
    return torch.stack(rows) if rows else torch.empty(0, max_length)


def check_sampling(temperature: float, top_k: int | None, top_p: float, min_p: float) -> None:
    """Raises SettingsError with all values that are out of range."""
    problems = []
    if not MIN_TEMPERATURE <= temperature < math.inf:
        problems.append(
            f"temperature: {temperature} should be finite and at least {MIN_TEMPERATURE}; "
            "use greedy search instead of 0"
        )
    if top_k is not None and top_k < 1:
        problems.append(f"top_k: {top_k} should be at least 1")
    if not 0 < top_p <= 1:
        problems.append(f"top_p: {top_p} should be greater than 0 and at most 1")
    if not 0 <= min_p <= 1:
        problems.append(f"min_p: {min_p} should be from 0 to 1")
    if problems:
        raise SettingsError(*problems)
