"""Word alignment from the weights of cross-attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.inspection.summaries import Role, Weights, head_roles

Merged = Float[Tensor, "... targets sources"]
LINKED = 0.15
"""The least agreement that links two words; chosen on the 37 development sentences of the Hansards."""
ALIGNS = 0.6
"""The least agreement that makes a head an aligner."""
SPECIAL = -1
"""The word number of special tokens such as </s>."""


@dataclass(frozen=True)
class Aligner:
    """A head of cross-attention, and how well it aligns words.

    When the decoder predicts a word, its input is the word before. Some heads attend to the source of the
    input word, others to the source of the predicted word (Chen et al. 2020).
    """

    layer: int
    head: int
    reads: bool
    """Whether it aligns the decoder's input word instead of the predicted one."""
    agreement: float


@dataclass(frozen=True)
class Words:
    """The word number of each source token, and of each token that the decoder predicts."""

    source: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True, repr=False)
class WordAlignment:
    """The words of two texts, aligned by one head."""

    attention: str
    """The path of the head's attention."""
    aligner: Aligner
    source: Sequence[str]
    target: Sequence[str]
    weights: Float[Tensor, "targets sources"]
    """The head's weights, merged to words."""
    agreed: Float[Tensor, "targets sources"]
    """The agreement of each pair of words."""

    @property
    def name(self) -> str:
        return f"{self.attention}, head {self.aligner.head}"

    @property
    def links(self) -> list[tuple[int, int]]:
        """Linked words as (source, target), counted from 0."""
        return sorted(links(self.agreed))

    @property
    def linked_words(self) -> list[tuple[str, str, float]]:
        """Linked words as (source, target, agreement), in the order of the source."""
        return [
            (self.source[source], self.target[target], float(self.agreed[target, source]))
            for source, target in self.links
        ]

    def __repr__(self) -> str:
        return f"WordAlignment({self.name}: {self})"

    def __str__(self) -> str:
        by_target = sorted(self.links, key=lambda link: (link[1], link[0]))
        return ", ".join(f"{self.target[target]} – {self.source[source]}" for source, target in by_target)


def merge_words(weights: Weights, words: Words, reads: bool) -> Float[Tensor, "heads targets sources"]:
    """Weights between words: summed over a word's keys, averaged over its queries, without special tokens.

    The first query belongs to <s>: it predicts the first token, which is the input of the second query.
    """
    queries = weights[:, 1:] if reads else weights
    target_numbers, targets = _numbers(words.target, weights)
    source_numbers, sources = _numbers(words.source, weights)
    target_numbers = target_numbers[: queries.shape[1]]
    by_target = _sum_by_word(queries[:, : len(target_numbers)], 1, target_numbers, targets)
    counts = torch.bincount(target_numbers, minlength=targets + 1)[:targets].clamp(min=1)
    return _sum_by_word(by_target, 2, source_numbers, sources) / counts[:, None]


def agreements(merged: Merged) -> Merged:
    """The agreement of two words: the share of each in the other's weights, multiplied.

    After alignment by agreement (Liang et al. 2006), with one matrix for both directions.
    """
    tiny = torch.finfo(merged.dtype).tiny
    rows = merged / merged.sum(-1, keepdim=True).clamp(min=tiny)
    columns = merged / merged.sum(-2, keepdim=True).clamp(min=tiny)
    return rows * columns


def agreement(merged: Float[Tensor, "heads targets sources"]) -> Float[Tensor, " heads"]:
    """The quality of each head as an aligner, without gold: from 1, a perfect pairing, down to near 0."""
    pairs = min(merged.shape[1:])
    return agreements(merged).sum((1, 2)) / max(pairs, 1)


def rank_aligners(sentences: Sequence[tuple[Sequence[Weights], Words]]) -> list[Aligner]:
    """All heads of all layers, best aligner first; more sentences give a more reliable ranking.

    A sentence is the cross-attention weights of each layer, and its words. A head is ranked by the better of
    the two ways in which it can align.
    """
    scores: dict[tuple[int, int, bool], float] = {}
    for layers, words in sentences:
        for layer, weights in enumerate(layers):
            for reads in (False, True):
                for head, value in enumerate(agreement(merge_words(weights, words, reads)).tolist()):
                    key = (layer, head, reads)
                    scores[key] = scores.get(key, 0.0) + value / len(sentences)
    aligners = [Aligner(*key, value) for key, value in scores.items()]
    ranked = sorted(aligners, key=lambda one: -one.agreement)
    best = {(one.layer, one.head): one for one in reversed(ranked)}
    return sorted(best.values(), key=lambda one: -one.agreement)


def align(layers: Sequence[Weights], words: Words, aligner: Aligner) -> Float[Tensor, "targets sources"]:
    """The agreement of all pairs of words by one head."""
    merged = merge_words(layers[aligner.layer], words, aligner.reads)
    return agreements(merged)[aligner.head]


def align_by_layer(
    layers: Sequence[Weights], words: Words, layer: int, reads: bool
) -> Float[Tensor, "targets sources"]:
    """The agreement of all pairs of words by the mean of a layer's heads."""
    return agreements(merge_words(layers[layer], words, reads).mean(0))


def links(agreed: Float[Tensor, "targets sources"], threshold: float = LINKED) -> set[tuple[int, int]]:
    """Linked words as (source, target), counted from 0."""
    return {(source, target) for target, source in (agreed >= threshold).nonzero().tolist()}


def cross_roles(weights: Weights, layer: int, aligners: Sequence[Aligner]) -> list[Role]:
    """The roles of a layer's cross-attention heads, including aligners."""
    strengths = {one.head: one.agreement for one in aligners if one.layer == layer}
    roles = head_roles(weights, cross=True)
    for head, role in enumerate(roles):
        # A head that rests on a single key may still pair words with its remaining weight; it is no aligner.
        if strengths.get(head, 0.0) >= ALIGNS and role.name in ("mixed", "diagonal"):
            roles[head] = Role("alignment", strengths[head])
    return roles


def _numbers(words: Sequence[int], like: Tensor) -> tuple[Int[Tensor, " tokens"], int]:
    """The word number of each token, and the number of words, which special tokens get as their number."""
    numbers, count = torch.tensor(list(words), device=like.device), max(words, default=SPECIAL) + 1
    return numbers.masked_fill(numbers == SPECIAL, count), count


def _sum_by_word(x: Tensor, axis: int, numbers: Int[Tensor, " tokens"], words: int) -> Tensor:
    """Sums along an axis over the tokens of each word, without special tokens."""
    shape = list(x.shape)
    shape[axis] = words + 1
    return x.new_zeros(shape).index_add_(axis, numbers, x).narrow(axis, 0, words)
