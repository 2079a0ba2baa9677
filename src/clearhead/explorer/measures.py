"""A trace as JSON: roles of heads, aligners, residual stream, logit lens, gradients, contributions, beam."""

import math
from collections.abc import Callable
from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.explorer.catalogue import pattern_of
from clearhead.explorer.trace_session import StoppedError, TraceSession, image_record
from clearhead.inspection import intervene
from clearhead.inspection.alignment import Aligner
from clearhead.inspection.explanation import finite
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.image import PatchImage, as_pixels, attention_distance, patch_filters
from clearhead.inspection.summaries import entropy, mean_distance, role_strengths, rollout
from clearhead.models.anatomy import AttentionPart

HOW = (
    "A head ranks high if the words of both texts choose each other: 1 if every word finds its partner, "
    "near 0 if attention is even. Subwords are merged; special tokens do not count."
)
MAX_ROLLOUT = 128
"""The most positions for which rollout is sent as JSON."""


def summaries(session: TraceSession) -> dict[str, Any]:
    """Everything cheap to measure, for every attention and sub-layer."""
    found, anatomy = Summaries(session.explanation), session.explanation.anatomy
    aligners = found.aligners if found.has_words else []
    own = [part.name for part in anatomy.attentions if not part.crosses]
    return {
        "attentions": {
            part.name: {"heads": _heads(found, part.name, part.crosses, aligners), **_unit(found, part)}
            for part in anatomy.attentions
        },
        "aligners": _alignment(found, aligners) if aligners else None,
        "residual": {
            stack.path: _residual(found, stack.path)
            for stack in anatomy.stacks
            if found.has_streams(stack.path)
        },
        "images": {part.name: _over_image(found, part) for part in _between_patches(found)},
        "rollout": {kind: rolled for kind in own if (rolled := _rollout(found, kind))},
    }


def lens(session: TraceSession, top: int) -> dict[str, Any]:
    """The logit lens: the stream after each layer, read out as if it were the last."""
    found = Summaries(session.explanation).lens(top)
    rows = zip(found.ids.tolist(), found.probabilities.tolist(), strict=True)
    following = found.next_probabilities.tolist()
    return {
        "rows": [row.removeprefix("layer ") for row in found.rows],
        "cells": [[_cell(session, *cell) for cell in zip(*row, strict=True)] for row in rows],
        "next": [[None if math.isnan(one) else one for one in row] for row in following],
    }


def gradients(session: TraceSession) -> dict[str, Any]:
    """The norm of the gradient of each predicted token's log-probability at each source token."""
    with intervene(session.model, session.edits):
        return {"norms": Summaries(session.explanation).gradients.tolist()}


def relevance(session: TraceSession) -> dict[str, Any]:
    """How much each position of the input supports the output, by several methods, and their test."""
    if session.explanation.relevance is None:
        raise SettingsError("relevance: this model does not classify, so no position supports a class")
    with intervene(session.model, session.edits):
        return Summaries(session.explanation).relevance.record()


def filters(session: TraceSession) -> dict[str, Any]:
    """What the patches of an image are read with, as small images."""
    found = Summaries(session.explanation).patch_embedding
    if found is None:
        raise SettingsError("filters: this model has no embedding of patches")
    filters, title, says = patch_filters(found[0])
    pixels = [(255 * as_pixels(one)).round().byte() for one in filters]
    return {"title": title, "says": says, "images": [image_record(PatchImage(one, (1, 1))) for one in pixels]}


def contributions(session: TraceSession, connected: Callable[[], bool] = lambda: True) -> dict[str, Any]:
    """The effect of muting each head, on top of the trace's own edits, while the client is connected."""
    names = {part.path("*"): part.name for part in session.explanation.anatomy.attentions}
    heads = []
    muted = closing(Summaries(session.explanation).contributions())
    with intervene(session.model, session.edits), muted as found:
        for one in found:
            if not connected():
                raise StoppedError(f"{session.name}: stopped muting heads because the client disconnected")
            path, layer = pattern_of(one.attention)
            at = {"attention": names[path], "layer": layer or 0, "head": one.head}
            heads.append({**at, "change": one.change})
    return {"heads": heads, "log_prob": session.explanation.sum_log_prob}


def beam(session: TraceSession) -> dict[str, Any]:
    """Every hypothesis the search looked at, in the order it found them."""
    tree: Any = session.explanation.tree
    if tree is None:
        raise SettingsError("beam: this output was not searched for; leave out the target")
    pieces = [session.explanation.piece(node.token) for node in tree.nodes]
    nodes = [
        {
            "node": number,
            "parent": node.parent,
            "step": node.step,
            "id": node.token,
            "piece": piece,
            "log_prob": finite(node.log_prob),
            "sum_log_prob": finite(node.sum_log_prob),
            "score": finite(node.score),
            "state": node.state,
            "reason": node.reason,
            "rank": node.rank,
            "best": node.best,
        }
        for number, (node, piece) in enumerate(zip(tree.nodes, pieces, strict=True))
    ]
    penalty = session.explanation.settings.get("length_penalty")
    return {"beam": tree.beam, "length_penalty": penalty, "nodes": nodes}


def _heads(found: Summaries, kind: str, crosses: bool, aligners: list[Aligner]) -> list[dict[str, Any]]:
    records = []
    scores = {(one.layer, one.head): one.agreement for one in aligners}
    for layer, weights in enumerate(found.weights(kind)):
        bits = entropy(weights).mean(-1).tolist()
        distance = _distance(found, kind, weights).tolist()
        shares = {name: share.tolist() for name, share in role_strengths(weights, crosses).items()}
        for head, role in enumerate(found.roles(kind)[layer]):
            aligns = {"alignment": scores.get((layer, head), 0.0)} if crosses else {}
            records.append(
                {
                    "layer": layer,
                    "head": head,
                    "entropy": bits[head],
                    "distance": distance[head],
                    "role": None if role.name == "mixed" else role.name,
                    "label": str(role),
                    "roles": {**{name: share[head] for name, share in shares.items()}, **aligns},
                }
            )
    return records


def _distance(found: Summaries, kind: str, weights: Tensor) -> Tensor:
    """The mean distance of each head: in pixels between patches, otherwise in positions."""
    part = found.part(kind)
    if part in _between_patches(found):
        return attention_distance(weights, found.explanation.images[part.keys])
    return mean_distance(weights, part.crosses).mean(-1)


def _unit(found: Summaries, part: AttentionPart) -> dict[str, str]:
    return {"distance_unit": "pixels" if part in _between_patches(found) else "positions"}


def _between_patches(found: Summaries) -> list[AttentionPart]:
    """The attentions between the patches of one image."""
    images = found.explanation.images
    return [part for part in found.anatomy.attentions if part.keys in images and not part.crosses]


def _over_image(found: Summaries, part: AttentionPart) -> dict[str, Any]:
    """What the output is read from, and the share of each position in it after every layer."""
    reader = found.read_from(part.keys)
    shares = reader.weights @ rollout(torch.stack(found.weights(part.name)))
    even = torch.ones(1, len(reader.weights), len(reader.weights))
    return {
        "side": part.keys,
        "reader": reader.name,
        "weights": reader.weights.tolist(),
        "rollout": shares.tolist(),
        "even_distance": float(attention_distance(even, found.explanation.images[part.keys])),
    }


def _alignment(found: Summaries, aligners: list[Aligner]) -> dict[str, Any]:
    words = found.alignment(aligners[0])
    ranked = [
        {"layer": one.layer, "head": one.head, "score": one.agreement, "reads": one.reads} for one in aligners
    ]
    links = [list(pair) for pair in words.links]
    aligned = {"source": list(words.source), "target": list(words.target), "links": links}
    return {"how": HOW, "ranked": ranked, "words": aligned}


def _residual(found: Summaries, stack: str) -> list[dict[str, Any]]:
    rows = []
    for one in found.residual_contributions(stack):
        share = {"norm": one.norm.tolist(), "added": one.added.tolist(), "share": one.share.tolist()}
        rows.append({"layer": one.layer, "sublayer": one.name.rsplit(".", 1)[1], **share})
    return rows


def _rollout(found: Summaries, kind: str) -> list[list[float]] | None:
    layers = found.weights(kind)
    return rollout(torch.stack(layers))[-1].tolist() if layers[0].shape[-1] <= MAX_ROLLOUT else None


def _cell(session: TraceSession, ids: list[int], probabilities: list[float]) -> list[dict[str, Any]]:
    return [
        {"id": one, "piece": piece, "probability": probability}
        for one, piece, probability in zip(
            ids, map(session.explanation.piece, ids), probabilities, strict=True
        )
    ]
