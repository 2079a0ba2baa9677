"""Word alignments of sentence pairs, from a translator's cross-attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.errors import ModelError, TextError
from clearhead.inspection import capture
from clearhead.inspection.alignment import SPECIAL, Aligner, Words, align, links, rank_aligners
from clearhead.models.anatomy import anatomy_of
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.pair import pair_logits
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class CapturedPair:
    """The cross-attention weights of a pair, layer by layer, and the words of both texts."""

    layers: Sequence[Tensor]
    words: Words

    def links(self, aligner: Aligner) -> set[tuple[int, int]]:
        """The pairs of words that a head links, as (source, target) indices."""
        return links(align(self.layers, self.words, aligner))


def capture_pairs(
    model: TranslationModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]], to: str | None = None
) -> Iterator[CapturedPair]:
    """One captured pass over each pair of texts, given as lists of words."""
    tags, anatomy = model.tag(to), anatomy_of(model.model)
    cross = next((part for part in anatomy.attentions if part.crosses), None)
    if cross is None:
        raise ModelError("the model does not attend to its source, so there is nothing to align words by")
    for number, (source, target) in enumerate(pairs, start=1):
        source_ids, source_numbers = _encode_words(model.tokenizer, source)
        target_ids, target_numbers = _encode_words(model.tokenizer, target)
        if (length := max(len(source_ids), len(target_ids))) > model.max_length:
            raise TextError(
                f"pair {number}: {length} tokens, but the model takes at most {model.max_length}; split it"
            )
        with capture(model.model, [f"{cross.path('*')}.weights"]) as trace, torch.no_grad():
            pair_logits(model.model, [*tags, *source_ids], target_ids)
        layers = [weights[0].cpu() for weights in trace.values()]
        source_words = [*[SPECIAL] * len(tags), *source_numbers, SPECIAL]
        yield CapturedPair(layers, Words(source_words, [*target_numbers, SPECIAL]))


def best_aligners(pairs: Sequence[CapturedPair]) -> list[Aligner]:
    """All heads, best first, by how clearly the words of these pairs select each other; needs no gold."""
    return rank_aligners([(pair.layers, pair.words) for pair in pairs])


def _encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[list[int], list[int]]:
    """The ids of words, and the index of the word that each id belongs to."""
    ids: list[int] = []
    numbers: list[int] = []
    for number, word in enumerate(words):
        own = tokenizer.encode(normalize(word))
        # Drop a lone space: in running text, a full stop or comma follows the word before it directly.
        own = own[1:] if len(own) > 1 and tokenizer.pieces(own[:1]) == ["▁"] else own
        ids += own
        numbers += [number] * len(own)
    return ids, numbers
