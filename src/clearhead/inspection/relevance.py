"""Which positions of an input decide the output: gradient times input, attention rollout, and their test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.inspection.summaries import rollout
from clearhead.inspection.trace import capture
from clearhead.models.anatomy import Anatomy, AttentionPart

GRADIENT, CENTRED = "gradient x input", "gradient x (input - mean)"
ROLLOUT, RANDOM = "attention rollout", "random order"
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""The shares of an input that are removed (DeYoung et al. 2020)."""
RANDOM_ORDERS = 5

Values = Float[Tensor, " positions"]


class Removal(NamedTuple):
    """An example without some positions of its input."""

    example: int
    positions: Int[Tensor, " removed"]


@dataclass(frozen=True)
class DeletionTest:
    """How the probability of an output falls when the most relevant positions of its input are removed first.

    A method is worth as much as it beats a random order. The mean fall is the comprehensiveness of DeYoung et
    al. (2020), averaged over several shares.
    """

    probability: list[float]
    """Of each example's output, with the whole input."""
    without: Mapping[str, list[list[float]]]
    """By method: for each example, the probability after each share is removed."""
    shares: tuple[float, ...] = SHARES

    @property
    def methods(self) -> list[str]:
        """All but the random order."""
        return [method for method in self.without if method != RANDOM]

    def curve(self, method: str) -> list[float]:
        """The mean probability with the whole input, then after each share is removed."""
        return [fmean(self.probability), *map(fmean, zip(*self.without[method], strict=True))]

    def falls(self, method: str) -> list[float]:
        """The comprehensiveness of each example: how far its probability falls, averaged over the shares."""
        pairs = zip(self.probability, self.without[method], strict=True)
        return [whole - fmean(rest) for whole, rest in pairs]

    def comprehensiveness(self, method: str) -> float:
        return fmean(self.falls(method))

    def advantage(self, method: str) -> tuple[float, float]:
        """The comprehensiveness above that of a random order, and its standard error over the examples."""
        pairs = zip(self.falls(method), self.falls(RANDOM), strict=True)
        differences = [one - other for one, other in pairs]
        error = stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else float("nan")
        return fmean(differences), error

    def record(self) -> dict[str, Any]:
        """The test as JSON."""
        return {
            "examples": len(self.probability),
            "shares": list(self.shares),
            "probability": {method: self.curve(method) for method in self.without},
            "comprehensiveness": {method: self.comprehensiveness(method) for method in self.without},
        }


@dataclass(frozen=True, eq=False)
class Relevance:
    """How much each position of an input supports an output, by several methods, and a test of them."""

    label: str
    """The output."""
    side: str
    """The input, a side of the anatomy."""
    values: Mapping[str, Values]
    """By method."""
    deletion: DeletionTest

    def record(self) -> dict[str, Any]:
        """The relevance as JSON."""
        values = {method: found.tolist() for method, found in self.values.items()}
        return {"label": self.label, "side": self.side, "values": values, "deletion": self.deletion.record()}


def gradient_relevance(
    model: nn.Module,
    run: Callable[[], Float[Tensor, " batch"]],
    site: str,
    inside: Bool[Tensor, "batch positions"] | None = None,
) -> dict[str, Float[Tensor, "batch positions"]]:
    """The gradient of each row's output at the vectors of a site, times the vectors (Shrikumar et al. 2017).

    `run` returns one number per row, such as the logit of its class; the site has a vector for each position:
    `embedding.token_embeddings`. Where a norm follows the vectors, as in every pre-norm model, the output
    hardly depends on their length, and the product says little. Relative to the mean vector of the row, it is
    what replacing a position by an average one would change, to first order. `inside` marks the positions
    that are no padding.
    """
    # cuDNN's recurrent layers have no gradient in evaluation.
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.backends.cudnn.flags(enabled=False),
        capture(model, [site], gradients=True) as trace,
    ):
        gradient = trace.gradients(run().sum())[site]
    gradient, vectors = gradient.float(), trace[site].detach().float()
    counted = vectors.new_ones(vectors.shape[:2]) if inside is None else inside.to(vectors)
    mean = (vectors * counted[:, :, None]).sum(1) / counted.sum(1)[:, None]
    return {
        GRADIENT: (gradient * vectors).sum(-1),
        CENTRED: (gradient * (vectors - mean[:, None])).sum(-1),
    }


@torch.no_grad()
def attention_rollout(
    model: nn.Module,
    run: Callable[[], Any],
    anatomy: Anatomy,
    attention: AttentionPart,
    read: Float[Tensor, "batch positions"],
) -> Float[Tensor, "batch positions"]:
    """The share of each position in what is read from the last layer (Abnar and Zuidema 2020).

    `read` holds the share of each position in what the output is read from: of a class token, of a mean.
    """
    layers: list[Tensor] = []
    names = [f"{path}.weights" for path in anatomy.layers(attention)]
    with capture(model, names, keep=lambda _, weights: layers.append(weights.float().mean(1))):
        run()
    # (batch, layers, 1, positions, positions): the heads are averaged already.
    rows = torch.stack(layers, dim=1)[:, :, None]
    return torch.stack([share @ rollout(row)[-1] for share, row in zip(read, rows, strict=True)])


def deletion_test(
    relevance: Mapping[str, Sequence[Values]],
    removable: Sequence[Bool[Tensor, " positions"]],
    probability: Callable[[Sequence[Removal]], Sequence[float]],
    seed: int = 0,
) -> DeletionTest:
    """Removes the most relevant positions of examples first, and positions in a random order to compare.

    `probability` returns, for many removals at once, the probability of the example's output without these
    positions of its input. Positions that are not removable, such as special tokens, stay.
    """
    generator = torch.Generator().manual_seed(seed)
    orders = [
        (method, number, values) for method, of in relevance.items() for number, values in enumerate(of)
    ]
    orders += [
        (RANDOM, number, torch.rand(len(keep), generator=generator))
        for number, keep in enumerate(removable)
        for _ in range(RANDOM_ORDERS)
    ]
    removals = [Removal(number, torch.empty(0, dtype=torch.int64)) for number in range(len(removable))]
    for _, number, values in orders:
        order = _order(values.cpu(), removable[number].cpu())
        removals += [Removal(number, order[: ceil(share * len(order))]) for share in SHARES]
    found = list(probability(removals))
    whole, rest = found[: len(removable)], found[len(removable) :]
    curves: dict[str, list[list[list[float]]]] = {
        method: [[] for _ in removable] for method in (*relevance, RANDOM)
    }
    for at, (method, number, _) in enumerate(orders):
        curves[method][number].append(rest[at * len(SHARES) : (at + 1) * len(SHARES)])
    means = {
        method: [[fmean(draws) for draws in zip(*of, strict=True)] for of in by_example]
        for method, by_example in curves.items()
    }
    return DeletionTest(whole, means)


def _order(values: Values, removable: Bool[Tensor, " positions"]) -> Int[Tensor, " removable"]:
    """The removable positions, the most relevant first."""
    order = values.argsort(descending=True, stable=True)
    return order[removable[order]]
