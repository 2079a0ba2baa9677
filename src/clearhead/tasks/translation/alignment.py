"""Word alignments of given pairs, as a translator's cross-attention has them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.errors import TextError
from clearhead.inspection import capture
from clearhead.inspection.alignment import SPECIAL, Aligner, Words, align, links, rank_aligners
from clearhead.tasks.translation.model import TranslationModel, pair_logits
from clearhead.text.tokenizer import Tokenizer

WEIGHTS = "decoder.blocks.*.cross_attention.weights"


@dataclass(frozen=True)
class Looked:
    """The cross-attention of a pair, layer by layer, and the words of both texts."""

    layers: Sequence[Tensor]
    words: Words

    def links(self, aligner: Aligner) -> set[tuple[int, int]]:
        """The words that a head links, as (source, target), counted from 0."""
        return links(align(self.layers, self.words, aligner))


def look_at_words(
    model: TranslationModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]], to: str | None = None
) -> Iterator[Looked]:
    """One pass over each pair of texts that are cut into words already."""
    tags = model.tag(to)
    for number, (source, target) in enumerate(pairs, start=1):
        read, source_numbers = _cut(model.tokenizer, source)
        said, target_numbers = _cut(model.tokenizer, target)
        if (max_length := max(len(read), len(said))) > model.max_length:
            raise TextError(
                f"pair {number}: {max_length} tokens, and the model takes {model.max_length}: split it"
            )
        with capture(model.model, [WEIGHTS]) as trace, torch.no_grad():
            pair_logits(model.model, [*tags, *read], said)
        layers = [weights[0].cpu() for weights in trace.values()]
        source_words = [*[SPECIAL] * len(tags), *source_numbers, SPECIAL]
        yield Looked(layers, Words(source_words, [*target_numbers, SPECIAL]))


def best_aligners(looked: Sequence[Looked]) -> list[Aligner]:
    """All heads, best first, by how far words choose each other in these pairs; no gold is needed."""
    return rank_aligners([(one.layers, one.words) for one in looked])


def _cut(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[list[int], list[int]]:
    """The ids of words, and the number of the word that each belongs to."""
    ids: list[int] = []
    numbers: list[int] = []
    for number, word in enumerate(words):
        own = tokenizer.encode(word)
        # A blank by itself: in running text, a full stop or a comma stands at the end of a word.
        own = own[1:] if len(own) > 1 and tokenizer.pieces(own[:1]) == ["▁"] else own
        ids += own
        numbers += [number] * len(own)
    return ids, numbers
