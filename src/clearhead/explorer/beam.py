"""The tree of a beam search as JSON."""

import math
from typing import Any

from clearhead.errors import SettingsError
from clearhead.explorer.trace_session import TraceSession


def beam(session: TraceSession) -> dict[str, Any]:
    """Every hypothesis the search looked at, in the order it found them."""
    tree = session.tree
    if tree is None:
        raise SettingsError("beam: this output was not searched for; leave out the target")
    nodes = [
        {
            "node": number,
            "parent": node.parent,
            "step": node.step,
            "id": node.token,
            "piece": piece,
            "log_prob": _finite(node.log_prob),
            "sum_log_prob": _finite(node.sum_log_prob),
            "score": _finite(node.score),
            "state": node.state,
            "reason": node.reason,
            "rank": node.rank,
            "best": node.best,
        }
        for number, (node, piece) in enumerate(
            zip(tree.nodes, session.explanation.pieces([node.token for node in tree.nodes]), strict=True)
        )
    ]
    penalty = session.explanation.settings.get("length_penalty")
    return {"beam": tree.beam, "length_penalty": penalty, "nodes": nodes}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
