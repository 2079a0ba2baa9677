"""Vectors of words: which of the vocabulary are near, and how a word changes with the words around it."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import TextError
from clearhead.explorer.architecture import Model, stacks
from clearhead.inspection.explanation import Explanation, Token
from clearhead.inspection.vectors import nearest
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.translation.model import TranslationModel


@torch.no_grad()
def neighbours(model: Model, word: str, count: int) -> dict[str, Any]:
    """The tokens whose embeddings are nearest to a word's by cosine; of several pieces, to their mean."""
    ids = model.tokenizer.encode(word)
    if not ids:
        raise TextError("word: is blank; give a word")
    vector = _matrix(model)[torch.tensor(ids, device=model.device)].mean(0)
    pieces = model.tokenizer.pieces(ids)
    return {
        "word": word,
        "pieces": [{"id": one, "piece": piece} for one, piece in zip(ids, pieces, strict=True)],
        "neighbours": _nearest(model, vector, count, set(ids) if len(ids) == 1 else set()),
    }


@torch.no_grad()
def in_contexts(model: Model, word: str, texts: Sequence[str], count: int) -> dict[str, Any]:
    """The same word in several texts: how alike its vectors are in each layer of the first stack."""
    stack = stacks(model.model)[0]
    path = f"{stack['name']}.blocks.*.feedforward_residual.stream"
    embedding = (
        "embedding.token_embeddings" if stack["side"] == "text" else "source_embedding.token_embeddings"
    )
    positions, rows = [], []
    for number, text in enumerate(texts):
        told = _explained(model, text, [path, embedding])
        found = _places(told, word, number)
        names = [embedding, *(path.replace("*", str(layer)) for layer in range(stack["layers"]))]
        positions.append(found)
        rows.append(torch.stack([told[name][found].mean(0) for name in names]))
    vectors = torch.stack(rows, 1)
    unit = F.normalize(vectors.float(), dim=-1)
    return {
        "word": word,
        "layers": stack["layers"],
        "places": positions,
        "similar": (unit @ unit.mT).clamp(-1, 1).tolist(),
        "nearest": [_nearest(model, vector.to(model.device), count, set()) for vector in vectors[-1]],
    }


def _matrix(model: Model) -> Tensor:
    side = "embedding" if isinstance(model, LanguageModel) else "source_embedding"
    return model.model.get_parameter(f"{side}.weight")


def _nearest(model: Model, vector: Tensor, count: int, without: set[int]) -> list[dict[str, Any]]:
    signs = range(len(model.tokenizer.special_tokens))
    found = nearest(_matrix(model), vector, count, {*signs, *without})
    pieces = model.tokenizer.pieces([one for one, _ in found])
    return [
        {"id": one, "piece": piece, "cosine": cosine}
        for (one, cosine), piece in zip(found, pieces, strict=True)
    ]


def _explained(model: Model, text: str, names: Sequence[str]) -> Explanation:
    if isinstance(model, TranslationModel):
        # Only the source is looked at; any target will do, and an empty one is the quickest.
        return model.explain(text, target="", names=names, **_some_language(model))
    return model.explain(text, names=names)


def _some_language(model: TranslationModel) -> dict[str, str]:
    return {"to": model.directions[0].target}


def _places(told: Explanation, word: str, number: int) -> list[int]:
    """Where the word stands in a text: the places of its subwords, the first time it comes."""
    tokens = told.source or told.target
    groups: dict[int, list[int]] = {}
    for place, token in enumerate(tokens):
        if token.word is not None:
            groups.setdefault(token.word, []).append(place)
    wanted = _plain(word)
    for positions in groups.values():
        if _plain(_spelled([tokens[place] for place in positions])) == wanted:
            return positions
    raise TextError(f"texts.{number}: the word {word!r:.40} is not in it; use it in every text")


def _spelled(tokens: Sequence[Token]) -> str:
    return "".join(token.piece for token in tokens).replace("▁", "")


def _plain(word: str) -> str:
    return word.strip().strip(".,;:!?\"'»«„“”()").casefold()
