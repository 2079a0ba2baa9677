"""What is measured on a trace: roles of heads, aligners, the residual stream, logit lens, contributions."""

import math
from collections.abc import Callable
from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from clearhead.explorer.architecture import attentions, stacks
from clearhead.explorer.catalogue import pattern_of
from clearhead.explorer.trace_session import StoppedError, TraceSession
from clearhead.inspection import intervene
from clearhead.inspection.alignment import SPECIAL, Aligner, cross_roles
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.summaries import entropy, mean_distance, role_strengths, rollout

HOW = (
    "by how far the words of both texts choose each other in a head's weights, subwords merged, signs "
    "left out: 1 where they are paired off, near 0 where it looks everywhere alike"
)
MOST_ROLLED = 128
"""Places up to which a matrix of them can still be sent as text."""


def summaries(told: TraceSession) -> dict[str, Any]:
    """All that is cheap to measure, of every attention and every sub-layer."""
    found = Summaries(told.explanation)
    aligners = _aligners(found)
    own = [kind for kind in found.kinds if kind != "cross"]
    return {
        "attentions": {kind: {"heads": _heads(found, kind, aligners)} for kind in found.kinds},
        "aligners": _words(found, aligners) if aligners else None,
        "residual": {stack["name"]: _residual(found, stack["name"]) for stack in stacks(told.model)},
        "rollout": {kind: rolled for kind in own if (rolled := _rollout(found, kind))},
    }


def lens(told: TraceSession, top: int) -> dict[str, Any]:
    """What the stream would be read out as after each layer."""
    found = Summaries(told.explanation).lens(top)
    rows = zip(found.ids.tolist(), found.probabilities.tolist(), strict=True)
    return {
        "rows": [row.removeprefix("layer ") for row in found.rows],
        "cells": [[_cell(told, *place) for place in zip(*row, strict=True)] for row in rows],
        "next": [
            [None if math.isnan(one) else one for one in row] for row in found.next_probabilities.tolist()
        ],
    }


def contributions(told: TraceSession, wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
    """Each head muted once, as long as it is wanted; the trace's own interventions hold meanwhile."""
    keys = {one["path"]: one["key"] for one in attentions(told.model)}
    heads = []
    with intervene(told.model, told.changes), closing(Summaries(told.explanation).contributions()) as found:
        for one in found:
            if not wanted():
                raise StoppedError(
                    f"{told.name}: heads are muted no further, as nobody waits for it any more"
                )
            path, layer = pattern_of(one.attention)
            heads.append({"attention": keys[path], "layer": layer, "head": one.head, "change": one.change})
    return {"heads": heads, "log_probability": told.explanation.log_probability}


def _heads(found: Summaries, kind: str, aligners: list[Aligner]) -> list[dict[str, Any]]:
    across, told = kind == "cross", []
    scores = {(one.layer, one.head): one.agreement for one in aligners}
    layers = found.weights(kind)
    roles = [cross_roles(one, at, aligners) for at, one in enumerate(layers)] if across else found.roles(kind)
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


def _aligners(found: Summaries) -> list[Aligner]:
    """The heads of cross-attention as aligners; none where there is no such head or no word."""
    if "cross" not in found.kinds:
        return []
    words = found.words
    return found.aligners() if max(words.source) > SPECIAL and max(words.target) > SPECIAL else []


def _words(found: Summaries, aligners: list[Aligner]) -> dict[str, Any]:
    words = found.alignment(aligners[0])
    ranked = [
        {"layer": one.layer, "head": one.head, "score": one.agreement, "reads": one.reads} for one in aligners
    ]
    links = [list(pair) for pair in words.links]
    told = {"source": list(words.source), "target": list(words.target), "links": links}
    return {"how": HOW, "ranked": ranked, "words": told}


def _residual(found: Summaries, stack: str) -> list[dict[str, Any]]:
    rows = []
    for one in found.residual_contributions(stack):
        path, layer = pattern_of(one.name)
        share = {"norm": one.norm.tolist(), "added": one.added.tolist(), "share": one.share.tolist()}
        rows.append({"layer": layer, "sublayer": path.rsplit(".", 1)[1], **share})
    return rows


def _rollout(found: Summaries, kind: str) -> list[list[float]] | None:
    layers = found.weights(kind)
    return rollout(torch.stack(layers))[-1].tolist() if layers[0].shape[-1] <= MOST_ROLLED else None


def _cell(told: TraceSession, ids: list[int], chances: list[float]) -> list[dict[str, Any]]:
    pieces = told.tokenizer.pieces(ids)
    return [
        {"id": one, "piece": piece, "probability": chance}
        for one, piece, chance in zip(ids, pieces, chances, strict=True)
    ]
