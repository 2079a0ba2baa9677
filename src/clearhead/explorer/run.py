"""From a request to a trace: the model runs at full speed, and the tensors to capture are chosen."""

import math
import time
from collections.abc import Mapping
from typing import Any

from clearhead.errors import TextError
from clearhead.explorer.architecture import architecture
from clearhead.explorer.explorable import Explorable, about, explain_options
from clearhead.explorer.interventions import as_python, parse_edits
from clearhead.explorer.trace_session import TraceSession, output_summary
from clearhead.inspection import intervene

KEPT_BYTES = 96_000_000
"""A larger trace keeps what pictures need and computes the rest on request."""
ON_REQUEST = ("scores", "masked", "queries", "keys", "values", "head_output")


def start_trace(model: Explorable, name: str, request: Mapping[str, Any]) -> TraceSession:
    """The trace of a request (fields as in docs/trace.md); its `run` then captures the tensors."""
    started = time.perf_counter()
    text, options = request["text"], explain_options(model, request)
    check_length(model, text)
    interventions = request.get("interventions", ())
    edits = parse_edits(model, interventions)
    with intervene(model.model, edits):
        explanation = model.explain(text, names=(), **options)

    def baseline() -> Mapping[str, Any]:
        names = ["logits"] if "logits" in session.catalogue else ()
        return output_summary(model.explain(text, names=names, **options))

    session = TraceSession(
        explanation,
        architecture(model, name),
        interventions,
        edits,
        as_python(model, name, text, options, edits),
        baseline=baseline if edits else None,
    )
    entries = session.catalogue.values()
    size = sum(4 * math.prod(entry.shape) for entry in entries)
    session.expect([one for one in entries if size <= KEPT_BYTES or one.role not in ON_REQUEST])
    session.seconds = time.perf_counter() - started
    return session


def check_length(model: Explorable, text: str) -> None:
    """Refuses a text that is too long for the model."""
    tokenizer, limit = getattr(model, "tokenizer", None), about(model)["max_tokens"]
    if tokenizer is None or limit is None:
        return
    if (length := len(tokenizer.encode(text))) > limit:
        raise TextError(f"text: {length} tokens, but the model takes at most {limit}; shorten it")
