"""Word vectors: nearest neighbours in the vocabulary, and one word in several contexts."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import SettingsError, TextError
from clearhead.explorer.explorable import Explorable, explain_options, tokenizer_of
from clearhead.inspection.explanation import Explanation, words_of
from clearhead.inspection.vectors import nearest
from clearhead.models.anatomy import StackPart

PUNCTUATION = ".,;:!?\"'»«„“”()"


@torch.no_grad()
def neighbours(model: Explorable, word: str, count: int) -> dict[str, Any]:
    """The tokens whose embeddings are nearest to a word's by cosine; several pieces are averaged."""
    tokenizer = tokenizer_of(model)
    ids = tokenizer.encode(word)
    if not ids:
        raise TextError("word: is blank; give a word")
    matrix = _matrix(model)
    vector = matrix[torch.tensor(ids, device=matrix.device)].mean(0)
    pieces = tokenizer.pieces(ids)
    return {
        "word": word,
        "pieces": [{"id": one, "piece": piece} for one, piece in zip(ids, pieces, strict=True)],
        "neighbours": _nearest(model, vector, count, set(ids) if len(ids) == 1 else set()),
    }


@torch.no_grad()
def in_contexts(model: Explorable, word: str, texts: Sequence[str], count: int) -> dict[str, Any]:
    """The same word in several texts: how similar its vectors are after each layer of the first side."""
    anatomy = model.model.anatomy()
    if not (parts := (*anatomy.stacks, *anatomy.recurrences)):
        raise SettingsError(f"model: {model.name!r} has no layers, so a word is the same in every text")
    part = parts[0]
    embedding = f"{anatomy.embeddings[part.side]}.token_embeddings"
    path = part.stream("*", part.sublayers[-1]) if isinstance(part, StackPart) else part.site("*", "hidden")
    names = [embedding, *(path.replace("*", str(layer)) for layer in range(part.layers))]
    # Only the first side is read; an empty target is the fastest.
    options = explain_options(model, {"target": ""})
    positions, rows = [], []
    for number, text in enumerate(texts):
        explanation = model.explain(text, names=[embedding, path], **options)
        found = _positions(explanation, word, number)
        positions.append(found)
        # The two directions of a recurrence make one vector.
        rows.append([explanation[name][..., found, :].mean(-2).flatten().float() for name in names])
    units = [F.normalize(torch.stack(vectors), dim=-1) for vectors in zip(*rows, strict=True)]
    last = [row[-1].to(_matrix(model).device) for row in rows] if anatomy.stacks else []
    return {
        "word": word,
        "layers": part.layers,
        "positions": positions,
        "similarity": [(unit @ unit.mT).clamp(-1, 1).tolist() for unit in units],
        "nearest": [_nearest(model, vector, count, set()) for vector in last],
    }


def _matrix(model: Explorable) -> Tensor:
    """The embedding matrix of the first side."""
    path = next(iter(model.model.anatomy().embeddings.values()), "")
    matrix = getattr(model.model.get_submodule(path), "weight", None)
    if matrix is None:
        raise SettingsError(f"model: {model.name!r} has no embedding, so words have no neighbours")
    return matrix


def _nearest(model: Explorable, vector: Tensor, count: int, without: set[int]) -> list[dict[str, Any]]:
    tokenizer = tokenizer_of(model)
    found = nearest(_matrix(model), vector, count, {*range(len(tokenizer.special_tokens)), *without})
    pieces = tokenizer.pieces([one for one, _ in found])
    return [
        {"id": one, "piece": piece, "cosine": cosine}
        for (one, cosine), piece in zip(found, pieces, strict=True)
    ]


def _positions(explanation: Explanation, word: str, number: int) -> list[int]:
    """The positions of a word's pieces in a text, at its first occurrence."""
    for tokens in words_of(explanation.source or explanation.target):
        spelled = "".join(token.piece for token in tokens.values()).replace("▁", "")
        if _plain(spelled) == _plain(word):
            return list(tokens)
    raise TextError(f"texts.{number}: does not contain the word {word!r:.40}; use it in every text")


def _plain(word: str) -> str:
    return word.strip().strip(PUNCTUATION).casefold()
