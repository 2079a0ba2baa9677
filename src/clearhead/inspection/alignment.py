"""Which words of a source became which words of a target, as the heads of cross-attention have it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.inspection.summaries import Role, Weights, head_roles

Merged = Float[Tensor, "... targets sources"]
# Words are linked when they agree so far; chosen on the 37 development sentences of the Hansards.
LINKED = 0.15
# A head whose words agree so far is called an aligner.
ALIGNS = 0.6
SIGN = -1
"""In the position of a word's number: this token is no word, but a sign such as </s>."""


@dataclass(frozen=True)
class Aligner:
    """A head of cross-attention as an aligner, and how well it does.

    While a word is written, the decoder reads the one before it. Some heads look at the source of the word
    that is read, others at the source of the one that is to come (Chen et al. 2020).
    """

    layer: int
    head: int
    reads: bool
    """Whether it looks for the word that is read, not for the one that is to come."""
    agreement: float

    @property
    def name(self) -> str:
        return f"decoder.blocks.{self.layer}.cross_attention, head {self.head}"


@dataclass(frozen=True)
class Words:
    """The words of both texts: for each token of the source, as it is encoded, the number of its word.

    And for each token that the target is to have, which is one token behind what the decoder reads.
    """

    source: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True)
class WordAlignment:
    """The words of two texts, and how one head sees them."""

    aligner: Aligner
    source: Sequence[str]
    target: Sequence[str]
    weights: Float[Tensor, "targets sources"]
    """Of the head, merged to words."""
    agreed: Float[Tensor, "targets sources"]
    """How far two words choose each other."""

    @property
    def links(self) -> list[tuple[int, int]]:
        """Pairs of words (source, target), counted from 0."""
        return sorted(links(self.agreed))

    def __str__(self) -> str:
        found = sorted(self.links, key=lambda link: (link[1], link[0]))
        return ", ".join(f"{self.target[target]} – {self.source[source]}" for source, target in found)


def word_numbers(groups: Sequence[Sequence[int]], signs: int) -> list[int]:
    """The number of each token's word, from groups of ids (`Tokenizer.words`); ids below `signs` are none."""
    numbers, word = [], 0
    for group in groups:
        sign = all(number < signs for number in group)
        numbers += [SIGN if sign else word] * len(group)
        word += not sign
    return numbers


def merge_words(weights: Weights, words: Words, reads: bool) -> Float[Tensor, "heads targets sources"]:
    """Weights between words: keys of a word are added up, its queries averaged; signs are left out.

    The first query is that of <s>, at which the first token is written; the token is read at the second.
    """
    queries = weights[:, 1:] if reads else weights
    asked, targets = _numbers(words.target, weights)
    held, sources = _numbers(words.source, weights)
    asked = asked[: queries.shape[1]]
    spoken = _added(queries[:, : len(asked)], 1, asked, targets)
    counts = torch.bincount(asked, minlength=targets + 1)[:targets].clamp(min=1)
    return _added(spoken, 2, held, sources) / counts[:, None]


def agreements(merged: Merged) -> Merged:
    """How far two words choose each other: the share of each in the other's weight, multiplied.

    As alignment by agreement has it (Liang et al. 2006), with one matrix for both directions.
    """
    least = torch.finfo(merged.dtype).tiny
    rows = merged / merged.sum(-1, keepdim=True).clamp(min=least)
    columns = merged / merged.sum(-2, keepdim=True).clamp(min=least)
    return rows * columns


def agreement(merged: Float[Tensor, "heads targets sources"]) -> Float[Tensor, " heads"]:
    """How good an aligner each head is, judged by itself: 1 where words are paired off, near 0 if even."""
    pairs = min(merged.shape[1:])
    return agreements(merged).sum((1, 2)) / max(pairs, 1)


def rank_aligners(sentences: Sequence[tuple[Sequence[Weights], Words]]) -> list[Aligner]:
    """All heads of all layers, each as what it is better at, best first; the more sentences, the surer.

    A sentence is the weights of each layer's cross-attention, and its words.
    """
    scores: dict[tuple[int, int, bool], float] = {}
    for layers, words in sentences:
        for layer, weights in enumerate(layers):
            for reads in (False, True):
                for head, value in enumerate(agreement(merge_words(weights, words, reads)).tolist()):
                    position = (layer, head, reads)
                    scores[position] = scores.get(position, 0.0) + value / len(sentences)
    aligners = [Aligner(*position, value) for position, value in scores.items()]
    ranked = sorted(aligners, key=lambda one: -one.agreement)
    best = {(one.layer, one.head): one for one in reversed(ranked)}
    return sorted(best.values(), key=lambda one: -one.agreement)


def align(layers: Sequence[Weights], words: Words, aligner: Aligner) -> Float[Tensor, "targets sources"]:
    """How far the words of both texts agree in the eyes of a head."""
    merged = merge_words(layers[aligner.layer], words, aligner.reads)
    return agreements(merged)[aligner.head]


def align_by_layer(
    layers: Sequence[Weights], words: Words, layer: int, reads: bool
) -> Float[Tensor, "targets sources"]:
    """The same in the eyes of a layer, whose heads count alike."""
    return agreements(merge_words(layers[layer], words, reads).mean(0))


def links(agreed: Float[Tensor, "targets sources"], least: float = LINKED) -> set[tuple[int, int]]:
    """The words that are linked, as (source, target), both counted from 0."""
    return {(source, target) for target, source in (agreed >= least).nonzero().tolist()}


def cross_roles(weights: Weights, layer: int, aligners: Sequence[Aligner]) -> list[Role]:
    """The roles of a layer's heads of cross-attention, aligners among them."""
    strengths = {one.head: one.agreement for one in aligners if one.layer == layer}
    roles = head_roles(weights, across=True)
    for head, role in enumerate(roles):
        # One that rests on a single key may pair off what little is left; that makes it no aligner.
        if strengths.get(head, 0.0) >= ALIGNS and role.name in ("mixed", "diagonal"):
            roles[head] = Role("alignment", strengths[head])
    return roles


def _numbers(words: Sequence[int], like: Tensor) -> tuple[Int[Tensor, " tokens"], int]:
    """The number of each token's word, and how many there are; signs have the number behind all words."""
    numbers, count = torch.tensor(list(words), device=like.device), max(words, default=SIGN) + 1
    return numbers.masked_fill(numbers == SIGN, count), count


def _added(x: Tensor, axis: int, numbers: Int[Tensor, " tokens"], words: int) -> Tensor:
    """What belongs to the same word, added up along an axis; what belongs to none is left out."""
    shape = list(x.shape)
    shape[axis] = words + 1
    return x.new_zeros(shape).index_add_(axis, numbers, x).narrow(axis, 0, words)
