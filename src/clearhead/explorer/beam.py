"""The tree of a beam search, as a page draws it."""

import math
from typing import Any

from clearhead.errors import SettingsError
from clearhead.explorer.trace_session import TraceSession


def beam(told: TraceSession) -> dict[str, Any]:
    """Every hypothesis that the search looked at, in the order in which it found them."""
    tree = told.tree
    if tree is None:
        raise SettingsError("beam: this output was not searched for; leave out the target")
    pieces = told.tokenizer.pieces([node.token for node in tree.nodes])
    nodes = [
        {
            "node": number,
            "parent": node.parent,
            "step": node.step,
            "id": node.token,
            "piece": piece,
            "log_probability": _finite(node.log_prob),
            "total": _finite(node.sum_log_prob),
            "score": _finite(node.score),
            "state": node.fate,
            "why": node.why,
            "rank": node.rank,
            "best": node.best,
        }
        for number, (node, piece) in enumerate(zip(tree.nodes, pieces, strict=True))
    ]
    return {"beam": tree.beam, "alpha": told.explanation.settings.get("alpha"), "nodes": nodes}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
