"""What an explanation comes to: roles of heads, words aligned, shares in the residual, the logit lens."""

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.inspection.alignment import (
    SIGN,
    Aligner,
    WordAlignment,
    Words,
    agreements,
    cross_roles,
    merge_words,
    rank_aligners,
)
from clearhead.inspection.contributions import Contribution, contributions
from clearhead.inspection.explanation import Explanation, Token, not_captured
from clearhead.inspection.lens import Lens, logit_lens
from clearhead.inspection.summaries import Brought, Role, head_roles, residual_share
from clearhead.layers.block import Stack
from clearhead.models import GPT, Translator
from clearhead.text.tokenizer import UNK

ATTENTIONS = {
    "encoder": "encoder.blocks.{}.attention",
    "decoder": "decoder.blocks.{}.attention",
    "cross": "decoder.blocks.{}.cross_attention",
}
"""Kinds of attention, and the paths of their layers."""
RESIDUALS = {
    "attention": "attention_residual",
    "cross_attention": "cross_residual",
    "feedforward": "feedforward_residual",
}
"""What adds up what each sub-layer brings."""


class Summaries:
    """What can be computed from the tensors of an explanation."""

    def __init__(self, explanation: Explanation):
        self.explanation = explanation
        self.model = explanation.model
        self._roles: dict[str, list[list[Role]]] = {}

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention that the model has."""
        return ["decoder"] if isinstance(self.model, GPT) else ["encoder", "decoder", "cross"]

    def paths(self, kind: str) -> list[str]:
        """The attentions of a kind, a layer each."""
        if kind not in self.kinds:
            raise SettingsError(f"attention: {kind!r} is not one of {', '.join(self.kinds)}")
        stack: Stack = self.model.get_submodule(ATTENTIONS[kind].split(".")[0])  # pyright: ignore
        return [ATTENTIONS[kind].format(layer) for layer in range(len(stack.blocks))]

    def tensor(self, name: str) -> Tensor:
        """A tensor of the explanation, without the batch's axis."""
        if name not in self.explanation.trace:
            raise not_captured(name)
        return self.explanation[name].float()

    def sides(self, kind: str) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens that ask and those that are asked."""
        one = self.explanation
        return {
            "encoder": (one.source, one.source),
            "decoder": (one.target, one.target),
            "cross": (one.target, one.source),
        }[kind]

    def weights(self, kind: str) -> list[Tensor]:
        """(heads, queries, keys) in every layer."""
        return [self.tensor(f"{path}.weights") for path in self.paths(kind)]

    def roles(self, kind: str) -> list[list[Role]]:
        """What the heads of every layer mostly look at; measured once, as a picture asks layer by layer."""
        if kind not in self._roles:
            weights, ranked = self.weights(kind), self.aligners() if kind == "cross" else []
            self._roles[kind] = [
                cross_roles(one, layer, ranked) if kind == "cross" else head_roles(one)
                for layer, one in enumerate(weights)
            ]
        return self._roles[kind]

    @property
    def words(self) -> Words:
        """Which word each token belongs to; of the target, of each token that is to be said."""
        source, target = self.explanation.source, self.explanation.target
        said = [*target[1:], None]
        return Words([_number(token) for token in source], [_number(token) for token in said])

    def aligners(self) -> list[Aligner]:
        """The heads of cross-attention, best aligner first, as this text has it."""
        return rank_aligners([(self.weights("cross"), self.words)])

    def alignment(self, aligner: Aligner | None = None) -> WordAlignment:
        """The words as a head sees them; the best aligner, if none is named."""
        aligner = aligner or self.aligners()[0]
        merged = merge_words(self.weights("cross")[aligner.layer], self.words, aligner.reads)[aligner.head]
        source, target = self._spelled(self.explanation.source), self._spelled(self.explanation.target)
        # What the vocabulary does not have is known only from the text.
        own = self.explanation.tokenizer.word_texts(self.explanation.text)
        for number, ids in enumerate(_grouped(self.explanation.source)):
            if UNK in ids:
                source[number] = own[number] or source[number]
        return WordAlignment(aligner, source, target, merged, agreements(merged))

    def brought(self, stack: str) -> list[Brought]:
        """What each sub-layer of a stack brought to the stream."""
        before = self.tensor(_embedded(self.model, stack))
        found = []
        for path in self._sublayers(stack):
            added, stream = self.tensor(f"{path}.added"), self.tensor(_residual(path))
            found.append(
                Brought(path, stream.norm(dim=-1), added.norm(dim=-1), residual_share(before, added))
            )
            before = stream
        return found

    def lens(self, top: int = 3) -> Lens:
        """What the decoder would say after each of its layers."""
        layers = [
            f"decoder.blocks.{layer}.feedforward_residual.stream"
            for layer in range(len(self.paths("decoder")))
        ]
        rows = {"embedding": _embedded(self.model, "decoder")}
        rows |= {f"layer {layer}": name for layer, name in enumerate(layers)}
        device = self.model.readout_weight.device
        streams = {row: self.tensor(name).to(device) for row, name in rows.items()}
        asked = [token.next for token in self.explanation.target]
        return logit_lens(
            streams, lambda x: self.model.readout(self.model.decoder.norm(x[None]))[0], asked, top
        )

    def contributions(self) -> Generator[Contribution, None, None]:
        """What muting each head once does to the log-probability of what was said; a pass a head."""
        return contributions(self.model, self._log_probability)

    @torch.no_grad()
    def _log_probability(self) -> float:
        logits = self.explanation.logits()
        said = [token.next for token in self.explanation.target if token.next is not None]
        wanted = torch.tensor(said, device=logits.device)[:, None]
        return float(logits[: len(said)].float().log_softmax(-1).gather(1, wanted).sum())

    def _spelled(self, side: Sequence[Token]) -> list[str]:
        """The words of a side as the tokenizer writes them; what has no text is shown by its pieces."""
        tokenizer = self.explanation.tokenizer
        return [
            tokenizer.decode(ids).strip() or "".join(tokenizer.pieces(ids)).lstrip("▁") or "▁"
            for ids in _grouped(side)
        ]

    def _sublayers(self, stack: str) -> list[str]:
        blocks: Stack = self.model.get_submodule(stack)  # pyright: ignore[reportAssignmentType]
        return [
            f"{stack}.blocks.{layer}.{kind}"
            for layer, block in enumerate(blocks.blocks)
            for kind in RESIDUALS
            if hasattr(block, kind)
        ]


def _number(token: Token | None) -> int:
    return SIGN if token is None or token.word is None else token.word


def _grouped(tokens: Sequence[Token]) -> list[list[int]]:
    """The ids of each word."""
    words: dict[int, list[int]] = {}
    for token in tokens:
        if token.word is not None:
            words.setdefault(token.word, []).append(token.id)
    return list(words.values())


def _embedded(model: GPT | Translator, stack: str) -> str:
    """Where the stream of a stack begins."""
    if isinstance(model, GPT):
        return "embedding.stream"
    return "source_embedding.stream" if stack == "encoder" else "target_embedding.stream"


def _residual(path: str) -> str:
    """The stream behind a sub-layer."""
    block, kind = path.rsplit(".", 1)
    return f"{block}.{RESIDUALS[kind]}.stream"
