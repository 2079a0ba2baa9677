"""What is measured on a trace: roles of heads, aligners, the residual stream, the logit lens."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.inspection.alignment import SIGN, Words, align, cross_roles, links, rank_aligners
from clearhead.inspection.summaries import (
    Role,
    entropy,
    head_roles,
    mean_distance,
    residual_share,
    role_strengths,
    rollout,
)
from clearhead.tasks.explaining import Token
from clearhead.tasks.showing.architecture import attentions, stacks
from clearhead.tasks.showing.catalogue import RESIDUALS
from clearhead.tasks.showing.told import Told

HOW = (
    "by how far the words of both texts choose each other in a head's weights, subwords merged, signs "
    "left out: 1 where they are paired off, near 0 where it looks everywhere alike"
)


def summaries(told: Told) -> dict[str, Any]:
    """All that is cheap to measure, of every attention and every sub-layer."""
    kinds = attentions(told.model)
    weights = {one["key"]: told.values(f"{one['path']}.weights") for one in kinds}
    words = _words(told) if "cross" in weights else None
    aligners = rank_aligners([(list(weights["cross"]), words)]) if words else []
    heads = {}
    for one in kinds:
        across = one["kind"] == "cross"
        roles = [
            cross_roles(layer, number, aligners) if across else head_roles(layer)
            for number, layer in enumerate(weights[one["key"]])
        ]
        scores = {(each.layer, each.head): each.agreement for each in aligners} if across else {}
        heads[one["key"]] = {"heads": _heads(weights[one["key"]], roles, across, scores)}
    own = {one["key"]: one for one in kinds if one["kind"] == "self"}
    return {
        "attentions": heads,
        "aligners": _aligners(told, weights["cross"], words, aligners) if words else None,
        "residual": {stack["name"]: _residual(told, stack) for stack in stacks(told.model)},
        "rollout": {key: rollout(weights[key])[-1].tolist() for key in own if _small(weights[key])},
    }


def lens(told: Told, top: int) -> dict[str, Any]:
    """What the stream would be read out as after each layer (nostalgebraist 2020)."""
    model, tokenizer = told.model, told.tokenizer
    stack = stacks(model)[-1]
    side = "text" if stack["side"] == "text" else "target"
    first = told.values("embedding.stream" if side == "text" else "target_embedding.stream")
    streams = [first, *told.values(f"{stack['name']}.blocks.*.feedforward_residual.stream")]
    following = torch.tensor([token.next or 0 for token in told.read])
    cells, likely = [], []
    norm = model.get_submodule(f"{stack['name']}.norm")
    for stream in streams:
        with torch.inference_mode():
            read = model.readout(norm(stream[None].to(told.device)))[0].softmax(-1).cpu()
        best = read.topk(min(top, read.shape[1]))
        pieces = [tokenizer.pieces(row) for row in best.indices.tolist()]
        cells.append(_cells(best.indices.tolist(), pieces, best.values.tolist()))
        chances = read.gather(1, following[:, None])[:, 0].tolist()
        likely.append(
            [None if token.next is None else chance for token, chance in zip(told.read, chances, strict=True)]
        )
    rows = ["embedding", *map(str, range(stack["layers"]))]
    return {"rows": rows, "cells": cells, "next": likely}


def _heads(
    layers: Tensor, roles: Sequence[Sequence[Role]], across: bool, scores: dict[tuple[int, int], float]
) -> list[dict[str, Any]]:
    told = []
    for layer, weights in enumerate(layers):
        bits = entropy(weights).mean(-1).tolist()
        far = (_from_diagonal(weights) if across else mean_distance(weights)).mean(-1).tolist()
        shares = {name: share.tolist() for name, share in role_strengths(weights, across).items()}
        for head, role in enumerate(roles[layer]):
            aligns = {"alignment": scores.get((layer, head), 0.0)} if across else {}
            told.append(
                {
                    "layer": layer,
                    "head": head,
                    "entropy": bits[head],
                    "distance": far[head],
                    "role": None if role.name == "mixed" else role.name,
                    "label": str(role),
                    "roles": {**{name: share[head] for name, share in shares.items()}, **aligns},
                }
            )
    return told


def _from_diagonal(weights: Tensor) -> Tensor:
    """How far from the diagonal the keys lie that a query of another text looks at, on average."""
    queries, keys = weights.shape[1:]
    line = torch.linspace(0, keys - 1, queries)[:, None]
    return (weights * (torch.arange(keys) - line).abs()).sum(-1)


def _words(told: Told) -> Words | None:
    """The words of both sides, as aligners count them; none where a side has no word."""
    source = [SIGN if token.word is None else token.word for token in told.explanation.source]
    # What is to be said at each place of the decoder: one token behind what it reads.
    target = [SIGN if token.word is None else token.word for token in told.explanation.target[1:]]
    target += [SIGN] * (len(told.explanation.target) - len(target))
    return Words(source, target) if max(source) > SIGN and max(target) > SIGN else None


def _aligners(told: Told, layers: Tensor, words: Words, aligners: Sequence[Any]) -> dict[str, Any]:
    linked = links(align(list(layers), words, aligners[0]))
    return {
        "how": HOW,
        "ranked": [
            {"layer": one.layer, "head": one.head, "score": one.agreement, "reads": one.reads}
            for one in aligners
        ],
        "words": {
            "source": _texts(told.explanation.source),
            "target": _texts(told.explanation.target),
            "links": [list(pair) for pair in sorted(linked)],
        },
    }


def _texts(tokens: Sequence[Token]) -> list[str]:
    """The words of a side as they are written."""
    texts: dict[int, str] = {}
    for token in tokens:
        if token.word is not None:
            texts[token.word] = texts.get(token.word, "") + token.piece
    return [text.replace("▁", " ").strip() or text for text in texts.values()]


def _residual(told: Told, stack: dict[str, Any]) -> list[dict[str, Any]]:
    """The stream after each sub-layer, and how much of it is what that added."""
    name, rows = stack["name"], []
    side = stack["side"]
    stream = told.values("embedding.stream" if side == "text" else f"{side}_embedding.stream")
    for layer in range(stack["layers"]):
        for sublayer in stack["sublayers"]:
            added = told.values(f"{name}.blocks.{layer}.{sublayer}.added")
            after = told.values(f"{name}.blocks.{layer}.{RESIDUALS[sublayer]}.stream")
            rows.append(
                {
                    "layer": layer,
                    "sublayer": sublayer,
                    "norm": after.norm(dim=-1).tolist(),
                    "added": added.norm(dim=-1).tolist(),
                    "share": residual_share(stream, added).tolist(),
                }
            )
            stream = after
    return rows


def _cells(
    ids: list[list[int]], pieces: list[list[str]], chances: list[list[float]]
) -> list[list[dict[str, Any]]]:
    return [
        [
            {"id": one, "piece": piece, "probability": chance}
            for one, piece, chance in zip(*place, strict=True)
        ]
        for place in zip(ids, pieces, chances, strict=True)
    ]


def _small(weights: Tensor) -> bool:
    """Whether a matrix of places can still be sent as text."""
    return weights.shape[-1] <= 128
