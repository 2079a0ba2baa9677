"""Summaries of an explanation: head roles, word alignment, residual contributions and the logit lens."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.inspection.alignment import (
    SPECIAL,
    Aligner,
    WordAlignment,
    Words,
    agreements,
    cross_roles,
    merge_words,
    rank_aligners,
)
from clearhead.inspection.edits import Mute
from clearhead.inspection.explanation import Explanation, Token, not_captured, words_of
from clearhead.inspection.gradients import Norms, gradient_norms
from clearhead.inspection.image import PatchImage
from clearhead.inspection.intervene import intervene
from clearhead.inspection.relevance import Relevance
from clearhead.inspection.sites import sites
from clearhead.inspection.summaries import (
    Lens,
    ResidualContribution,
    Role,
    head_roles,
    logit_lens,
    residual_share,
)
from clearhead.layers.attention import Attention
from clearhead.layers.block import Stack
from clearhead.layers.patches import PatchEmbedding
from clearhead.models.anatomy import AttentionPart, StackPart
from clearhead.text.tokenizer import UNK, Tokenizer

POOLED = "the pooled image"
POOLING = "head.pooling_scores"
"""The scores of sequence pooling in a classifier (Hassani et al. 2021)."""


@dataclass(frozen=True)
class Contribution:
    """How the target's log-probability changes when a head is muted."""

    attention: str
    """The path of the attention."""
    head: int
    change: float
    """Negative if the head helps."""


class ReadFrom(NamedTuple):
    """Where a side is read: a weight for each position, 1 in all."""

    name: str
    weights: Tensor


class Summaries:
    """Measurements on the tensors of an explanation."""

    def __init__(self, explanation: Explanation):
        self.explanation = explanation
        self.model = explanation.model
        self.anatomy = explanation.anatomy
        self._tensors = set(sites(explanation.model))
        self._roles: dict[str, list[list[Role]]] = {}

    @property
    def kinds(self) -> list[str]:
        """The names of the model's attentions."""
        return [part.name for part in self.anatomy.attentions]

    @property
    def cross(self) -> AttentionPart | None:
        """The attention from one side to another, if the model has one."""
        return next((part for part in self.anatomy.attentions if part.crosses), None)

    def part(self, kind: str) -> AttentionPart:
        """An attention by name."""
        if kind not in self.kinds:
            raise SettingsError(f"attention: {kind!r} is not one of {', '.join(self.kinds)}")
        return self.anatomy.attention(kind)

    def paths(self, kind: str) -> list[str]:
        """The paths of an attention, one per layer."""
        return self.anatomy.layers(self.part(kind))

    def tensor(self, name: str) -> Tensor:
        """A captured tensor, without the batch axis."""
        if name not in self.explanation.trace:
            raise not_captured(name)
        return self.explanation[name].float()

    def tokens(self, kind: str) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of an attention's queries and of its keys."""
        part = self.part(kind)
        return self.explanation.sides[part.queries], self.explanation.sides[part.keys]

    def weights(self, kind: str) -> list[Tensor]:
        """The weights of every layer: (heads, queries, keys)."""
        return [self.tensor(f"{path}.weights") for path in self.paths(kind)]

    def roles(self, kind: str) -> list[list[Role]]:
        """The roles of every layer's heads, measured once."""
        if kind not in self._roles:
            crosses = self.part(kind).crosses
            self._roles[kind] = [
                cross_roles(one, layer, self.aligners) if crosses else head_roles(one)
                for layer, one in enumerate(self.weights(kind))
            ]
        return self._roles[kind]

    @property
    def words(self) -> Words:
        """The word of each source token, and of each token that the target is to continue with."""
        queries, keys = self.tokens(self._cross.name)
        return Words([_number(one) for one in keys], [*(_number(one) for one in queries[1:]), SPECIAL])

    @property
    def has_words(self) -> bool:
        """Whether both sides of the cross-attention have words, which can be aligned."""
        sides = self.tokens(self.cross.name) if self.cross else ((),)
        return all(any(not token.special for token in side) for side in sides)

    @cached_property
    def aligners(self) -> list[Aligner]:
        """The heads of cross-attention, best aligner of this text first."""
        return rank_aligners([(self.weights(self._cross.name), self.words)])

    def alignment(self, aligner: Aligner | None = None) -> WordAlignment:
        """The word alignment by a head; by the best aligner if none is given."""
        aligner, cross = aligner or self.aligners[0], self._cross
        weights = self.weights(cross.name)[aligner.layer]
        merged = merge_words(weights, self.words, aligner.reads)[aligner.head]
        target, source = (self._spelled(tokens) for tokens in self.tokens(cross.name))
        tokenizer = self.explanation.processor
        if isinstance(tokenizer, Tokenizer):
            # Only the text knows the spelling of words that are not in the vocabulary.
            spelled = tokenizer.word_texts(self.explanation.text)
            for number, tokens in enumerate(words_of(self.explanation.sides[cross.keys])):
                if any(token.id == UNK for token in tokens.values()):
                    source[number] = spelled[number] or source[number]
        path = cross.path(aligner.layer)
        return WordAlignment(path, aligner, source, target, merged, agreements(merged))

    def read_from(self, side: str) -> ReadFrom:
        """The positions of an image that the output is read from: its class token, its pooling, or all."""
        positions, image = len(self.explanation.sides[side]), self.explanation.images[side]
        if POOLING in self.explanation.trace and side == self.anatomy.output_side:
            return ReadFrom(POOLED, self.tensor(POOLING)[:, 0].softmax(0))
        if image.before:
            return ReadFrom(image.names[0], F.one_hot(torch.tensor(0), positions).float())
        return ReadFrom("all patches on average", torch.full((positions,), 1 / positions))

    @property
    def patch_embedding(self) -> tuple[PatchEmbedding, Attention, PatchImage] | None:
        """The embedding of an image, the first attention between its patches, and the image."""
        for part in self.anatomy.attentions:
            image, path = self.explanation.images.get(part.keys), self.anatomy.embeddings.get(part.keys)
            if image is not None and path is not None and not part.crosses:
                embedding, attention = map(self.model.get_submodule, (path, part.path(0)))
                if isinstance(embedding, PatchEmbedding) and isinstance(attention, Attention):
                    return embedding, attention, image
        return None

    def residual_contributions(self, stack: str) -> list[ResidualContribution]:
        """What each sublayer of a stack adds to the residual stream."""
        part = self.anatomy.stack(stack)
        before = self.tensor(self._embedded(part))
        found = []
        for layer in range(part.layers):
            for sublayer in part.sublayers:
                name, stream = part.added(layer, sublayer), self.tensor(part.stream(layer, sublayer))
                added = self.tensor(name)
                norms = stream.norm(dim=-1), added.norm(dim=-1)
                path = name.removesuffix(".added")
                found.append(ResidualContribution(path, layer, *norms, residual_share(before, added)))
                before = stream
        return found

    def has_streams(self, stack: str | None) -> bool:
        """Whether the residual stream of a stack can be captured."""
        if stack is None:
            return False
        part = self.anatomy.stack(stack)
        names = {part.stream(layer, one) for layer in range(part.layers) for one in part.sublayers}
        return {self._embedded(part), *names} <= self._tensors

    @property
    def has_lens(self) -> bool:
        """Whether the residual stream can be read out after every layer."""
        last = self.anatomy.stacks[-1].path if self.anatomy.readout and self.anatomy.stacks else None
        return self.has_streams(last) and isinstance(self.model.get_submodule(last or ""), Stack)

    def lens(self, top: int = 3) -> Lens:
        """The model's predictions if it stopped after each layer of its last stack."""
        stack, readout = self.anatomy.stacks[-1], self.anatomy.readout
        module = self.model.get_submodule(stack.path)
        assert isinstance(module, Stack)
        assert readout is not None
        rows = {"embedding": self._embedded(stack)}
        rows |= {f"layer {layer}": stack.stream(layer, stack.sublayers[-1]) for layer in range(stack.layers)}
        device = next(self.model.parameters()).device
        streams = {row: self.tensor(name).to(device) for row, name in rows.items()}
        read = getattr(self.model, readout)
        following = [token.next for token in self.explanation.target]
        return logit_lens(streams, lambda x: read(module.norm(x[None]))[0], following, top)

    @property
    def has_gradients(self) -> bool:
        """Whether predictions can be traced to the vectors of a source."""
        following = any(token.next is not None for token in self.explanation.target)
        return following and self._source_vectors in self._tensors

    @cached_property
    def gradients(self) -> Norms:
        """The norm of the gradient of each predicted token's log-probability at each source token."""
        following = [token.next for token in self.explanation.target if token.next is not None]
        return gradient_norms(self.model, self.explanation.run, self._source_vectors, following)

    @cached_property
    def relevance(self) -> Relevance:
        """How much each position of the input supports the output."""
        assert self.explanation.relevance is not None
        return self.explanation.relevance()

    def contributions(self) -> Generator[Contribution, None, None]:
        """The contribution of each head, by muting it while all others stay (Michel et al. 2019)."""
        baseline = self._sum_log_prob()
        for path, attention in self.model.named_modules():
            if isinstance(attention, Attention):
                for head in range(attention.project.sizes[0] // attention.head_size):
                    with intervene(self.model, {f"{path}.head_output": Mute([head])}):
                        yield Contribution(path, head, self._sum_log_prob() - baseline)

    @torch.no_grad()
    def _sum_log_prob(self) -> float:
        logits = self.explanation.run()
        following = [token.next for token in self.explanation.target if token.next is not None]
        wanted = torch.tensor(following, device=logits.device)[:, None]
        return float(logits[: len(following)].float().log_softmax(-1).gather(1, wanted).sum())

    @property
    def _cross(self) -> AttentionPart:
        if self.cross is None:
            raise SettingsError(f"{self.explanation.kind}: has no cross-attention, so there are no aligners")
        return self.cross

    @property
    def _source_vectors(self) -> str:
        """The name of the source's token vectors; empty for a model with one side."""
        sides = [side for side in self.anatomy.embeddings if side != self.anatomy.output_side]
        return f"{self.anatomy.embeddings[sides[0]]}.token_embeddings" if sides else ""

    def _embedded(self, stack: StackPart) -> str:
        """The name of the residual stream that enters a stack."""
        return f"{self.anatomy.embeddings.get(stack.side, stack.side)}.stream"

    def _spelled(self, tokens: Sequence[Token]) -> list[str]:
        """The words of a side as the tokenizer spells them; words without text appear as their pieces."""
        tokenizer, spelled = self.explanation.processor, []
        for word in (one.values() for one in words_of(tokens)):
            text = tokenizer.decode([token.id for token in word]) if isinstance(tokenizer, Tokenizer) else ""
            spelled.append(text.strip() or "".join(token.piece for token in word).lstrip("▁") or "▁")
        return spelled


def _number(token: Token) -> int:
    return SPECIAL if token.word is None else token.word
