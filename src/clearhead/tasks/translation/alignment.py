"""Word alignments of sentence pairs, from a translator's cross-attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.errors import ModelError, TextError
from clearhead.inspection import capture
from clearhead.inspection.alignment import SPECIAL, Aligner, WordAlignment, Words, align, links, rank_aligners
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.models.anatomy import AttentionPart, anatomy_of
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.pair import pair_logits
from clearhead.tasks.translation.search import Translation
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class CapturedPair:
    """The cross-attention weights of a pair, layer by layer, and the words of both texts."""

    layers: Sequence[Tensor]
    words: Words

    def agreement(self, aligner: Aligner) -> Tensor:
        """How well each target word (row) and source word (column) agree, by one head."""
        return align(self.layers, self.words, aligner)

    def links(self, aligner: Aligner) -> set[tuple[int, int]]:
        """The pairs of words that a head links, as (source, target) indices."""
        return links(self.agreement(aligner))


def capture_pairs(
    model: TranslationModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]], to: str | None = None
) -> Iterator[CapturedPair]:
    """One captured pass over each pair of texts, given as lists of words."""
    tags, cross = model.tag(to), _cross(model)
    for number, (source, target) in enumerate(pairs, start=1):
        source_ids, source_numbers = _encode_words(model.tokenizer, source)
        target_ids, target_numbers = _encode_words(model.tokenizer.for_targets, target)
        if (length := max(len(source_ids), len(target_ids))) > model.max_length:
            raise TextError(
                f"pair {number}: {length} tokens, but the model takes at most {model.max_length}; split it"
            )
        with capture(model.model, [f"{cross.path('*')}.weights"]) as trace, torch.no_grad():
            pair_logits(model.model, [*tags, *source_ids], target_ids)
        layers = [weights[0].cpu() for weights in trace.values()]
        source_words = [*[SPECIAL] * len(tags), *source_numbers, SPECIAL]
        yield CapturedPair(layers, Words(source_words, [*target_numbers, SPECIAL]))


def align_pairs(
    model: TranslationModel,
    pairs: Sequence[tuple[str, str | Translation]],
    to: str | None = None,
    aligner: Aligner | None = None,
) -> list[WordAlignment]:
    """The word alignment of each pair of texts, all by one head: by default, the best aligner of them."""
    cross, found = _cross(model), []
    for number, (source, target) in enumerate(pairs, start=1):
        if not str(target).strip():
            raise TextError(f"target {number}: is blank; give a text")
        names = [f"{cross.path('*')}.weights"]
        found.append(Summaries(model.explain(source, to, target=str(target), names=names)))
    if aligner is None and found:
        aligner = rank_aligners([(one.weights(cross.name), one.words) for one in found])[0]
    return [one.alignment(aligner) for one in found]


def best_aligners(pairs: Sequence[CapturedPair]) -> list[Aligner]:
    """All heads, best first, by how clearly the words of these pairs select each other; needs no gold."""
    return rank_aligners([(pair.layers, pair.words) for pair in pairs])


def _cross(model: TranslationModel) -> AttentionPart:
    """The attention from the target to the source."""
    cross = next((part for part in anatomy_of(model.model).attentions if part.crosses), None)
    if cross is None:
        raise ModelError("the model does not attend to its source, so there is nothing to align words by")
    return cross


def _encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[list[int], list[int]]:
    """The ids of words, and the index of the word that each id belongs to."""
    ids: list[int] = []
    numbers: list[int] = []
    for number, word in enumerate(words):
        (own,) = tokenizer.encode_protected([normalize(word)])
        # Drop a lone space: in running text, a full stop or comma follows the word before it directly.
        own = own[1:] if len(own) > 1 and tokenizer.pieces(own[:1]) == ["▁"] else own
        ids += own
        numbers += [number] * len(own)
    return ids, numbers
