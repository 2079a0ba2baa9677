"""Word vectors: nearest neighbours in the vocabulary, and one word in several contexts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import ModelError, TextError
from clearhead.explorer.explorable import Explorable, explain_options, tokenizer_of
from clearhead.inspection.explanation import Explanation, words_of
from clearhead.inspection.vectors import Neighbour, WordInText, combined, nearest
from clearhead.models.anatomy import StackPart
from clearhead.text.tokenizer import Tokenizer

PUNCTUATION = ".,;:!?\"'»«„“”()"


class TokenVectors:
    """The embeddings of a model's tokens, with the interface of word vectors."""

    def __init__(self, model: Explorable):
        self.model, self.tokenizer, self.name = model, tokenizer_of(model), model.name
        # The embedding of the first side.
        path = next(iter(model.model.anatomy().embeddings.values()), "")
        weight = getattr(model.model.get_submodule(path), "weight", None)
        if weight is None:
            raise ModelError(f"{self.name}: has no embedding, so words have no neighbours")
        self.matrix: Float[Tensor, "tokens width"] = weight.detach()

    def vector(self, word: str) -> Float[Tensor, " width"]:
        """The embedding of a word; several pieces are averaged."""
        return self.matrix[torch.tensor(self.encode(word), device=self.matrix.device)].mean(0)

    def encode(self, word: str) -> list[int]:
        """The tokens of a word."""
        ids = self.tokenizer.encode(word)
        if not ids:
            raise TextError("word: is blank; give a word")
        return ids

    def neighbours(
        self, words: str | Sequence[str], minus: Sequence[str] = (), n: int = 10
    ) -> list[Neighbour]:
        """The nearest tokens to a word, or to the sum of words less others; these themselves are left out."""
        plus = [words] if isinstance(words, str) else list(words)
        ids = [self.encode(word) for word in (*plus, *minus)]
        vectors = torch.stack([self.vector(word) for word in (*plus, *minus)])
        vector = combined(vectors[: len(plus)], vectors[len(plus) :])
        return self.nearest(vector, n, {one[0] for one in ids if len(one) == 1})

    def nearest(self, vector: Tensor, n: int, without: Collection[int] = ()) -> list[Neighbour]:
        """The tokens whose embeddings have the highest cosine to a vector."""
        specials = self.tokenizer.special_ids
        found = nearest(self.matrix, vector.to(self.matrix.device), n, {*specials, *without})
        return [Neighbour(self.tokenizer.piece(one), cosine, one) for one, cosine in found]

    def in_text(self, word: str, text: str, n: int = 10) -> WordInText:
        """A word in the context of a text: its state after the first stack, and the tokens nearest to it."""
        if not self.model.model.anatomy().stacks:
            raise ModelError(f"{self.name}: has no stack whose states are like embeddings; use a Transformer")
        _, layers = _in_contexts(self.model, word, {"text": text})
        return WordInText(text, layers[-1][0], self.nearest(layers[-1][0], n, self.encode(word)))


def neighbours(model: Explorable, word: str, count: int) -> dict[str, Any]:
    """The tokens whose embeddings are nearest to a word's by cosine."""
    vectors = TokenVectors(model)
    ids = vectors.encode(word)
    pieces = vectors.tokenizer.pieces(ids)
    return {
        "word": word,
        "pieces": [{"id": one, "piece": piece} for one, piece in zip(ids, pieces, strict=True)],
        "neighbours": _records(vectors.neighbours(word, n=count)),
    }


def in_contexts(model: Explorable, word: str, texts: Sequence[str], count: int) -> dict[str, Any]:
    """The same word in several texts: how similar its vectors are after each layer of the first side."""
    named = {f"texts.{number}": text for number, text in enumerate(texts)}
    positions, layers = _in_contexts(model, word, named)
    units, tokens = [F.normalize(vectors, dim=-1) for vectors in layers], TokenVectors(model)
    # Recurrent states are not like embeddings.
    last = layers[-1] if model.model.anatomy().stacks else ()
    return {
        "word": word,
        "layers": len(layers) - 1,
        "positions": positions,
        "similarity": [(unit @ unit.mT).clamp(-1, 1).tolist() for unit in units],
        "nearest": [_records(tokens.nearest(vector, count)) for vector in last],
    }


@torch.no_grad()
def _in_contexts(
    model: Explorable, word: str, texts: Mapping[str, str]
) -> tuple[list[list[int]], list[Float[Tensor, "texts _"]]]:
    """A word in several texts: the positions of its pieces, and their mean embedding and states by layer.

    Texts have names, for error messages.
    """
    anatomy = model.model.anatomy()
    if not (parts := (*anatomy.stacks, *anatomy.recurrences)):
        raise ModelError(f"{model.name}: has no layers, so a word is the same in every text")
    part = parts[0]
    embedding = f"{anatomy.embeddings[part.side]}.token_embeddings"
    path = part.stream("*", part.sublayers[-1]) if isinstance(part, StackPart) else part.site("*", "hidden")
    sites = [embedding, *(path.replace("*", str(layer)) for layer in range(part.layers))]
    # Only the first side is read; an empty target is the fastest.
    options = explain_options(model, {"target": ""})
    positions, rows = [], []
    for name, text in texts.items():
        explanation = model.explain(text, names=[embedding, path], **options)
        found = _positions(tokenizer_of(model), explanation, word, name)
        positions.append(found)
        # The two directions of a recurrence make one vector.
        rows.append([explanation[site][..., found, :].mean(-2).flatten().float() for site in sites])
    return positions, [torch.stack(vectors) for vectors in zip(*rows, strict=True)]


def _records(found: Sequence[Neighbour]) -> list[dict[str, Any]]:
    return [{"id": one.id, "piece": one.word, "cosine": one.cosine} for one in found]


def _positions(tokenizer: Tokenizer, explanation: Explanation, word: str, name: str) -> list[int]:
    """The positions of a word's pieces in a text, at its first occurrence."""
    for tokens in words_of(explanation.source or explanation.target):
        spelled = tokenizer.decode([token.id for token in tokens.values()])
        if _plain(spelled) == _plain(word):
            return list(tokens)
    raise TextError(f"{name}: does not contain the word {word!r:.40}; use it in every text")


def _plain(word: str) -> str:
    return word.strip().strip(PUNCTUATION).casefold()
