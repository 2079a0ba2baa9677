"""A trace as one HTML file: the built page with its script, style and all data inlined."""

import base64
import json
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from clearhead.errors import ModelError
from clearhead.explorer.architecture import module_map, position_table
from clearhead.explorer.arrays import array_of
from clearhead.explorer.block_file import block_data, block_parts
from clearhead.explorer.distribution import SamplingFilter
from clearhead.explorer.glossary import GLOSSARY
from clearhead.explorer.measures import beam, filters, gradients, lens, relevance, summaries
from clearhead.explorer.trace_session import FORMAT, ON_REQUEST, TraceSession
from clearhead.inspection.explanation import Explanation

PAGE = Path(str(files("clearhead.explorer") / "page"))
EXACT_BYTES = 16_000_000
"""Larger tensors are stored as f16; at twice the size, only those behind pictures are stored."""
# Only inlined code runs and nothing is fetched: the file works offline.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def standalone_page(explanation: Explanation) -> str:
    """A page that works from file://, with everything that an explanation holds."""
    about = module_map(explanation.model, explanation.name or "model", explanation.processor)
    return _with_data(_whole_page(), data_of(TraceSession(explanation, about)))


def data_of(session: TraceSession) -> dict[str, Any]:
    """Every response the page would ask a server for, except those that need the model."""
    kept = {
        name: entry
        for name, entry in session.catalogue.items()
        if entry.role != "logits" and session.holds(name)
    }
    size = sum(4 * math.prod(entry.shape) for entry in kept.values())
    if size > 2 * EXACT_BYTES:
        kept = {name: entry for name, entry in kept.items() if entry.role not in ON_REQUEST}
    dtype = "f32" if size <= EXACT_BYTES else "f16"
    tree = None if session.explanation.tree is None else beam(session)
    manifest = session.manifest()
    manifest["model"] |= {"generates": hasattr(session.model, "step")}
    if tree:
        manifest["model"] |= {"beam": tree["beam"], "length_penalty": tree["length_penalty"]}
    manifest["tensors"] = [entry.record() for entry in kept.values()]
    stored = {"summaries", "logits", "lens", "gradients", "beam", "relevance", "filters"}
    block = block_parts(session, kept, 2 * EXACT_BYTES - size)
    manifest["parts"] = [part for part in manifest["parts"] if part in stored or part in block]
    kind, table = position_table(session.model, max(map(len, session.explanation.sides.values())))
    has_logits = "logits" in manifest["parts"]
    positions = range(len(session.explanation.target)) if has_logits else ()
    return {
        "format": FORMAT,
        "glossary": GLOSSARY,
        "manifest": manifest,
        "summaries": summaries(session),
        "lens": lens(session, 3) if "lens" in manifest["parts"] else None,
        "gradients": gradients(session) if "gradients" in manifest["parts"] else None,
        "relevance": relevance(session) if "relevance" in manifest["parts"] else None,
        "filters": filters(session) if "filters" in manifest["parts"] else None,
        "beam": tree,
        "logits": {str(position): session.logits(position, SamplingFilter()) for position in positions},
        "tensors": {name: array_of(session.values(name), dtype).record() for name in kept},
        "positions": {"kind": kind, **table.record()},
        "block": block_data(session, block) if block else None,
    }


def _whole_page() -> str:
    """The built page with its script, style and icon inlined."""
    entry = PAGE / "index.html"
    if not entry.is_file():
        raise ModelError(f"{entry}: the page is not built; run scripts/page")
    page = entry.read_text(encoding="utf-8")
    page = re.sub(r"<script[^>]*\ssrc=\"\./([^\"]+)\"[^>]*>\s*</script>", _script, page)
    page = re.sub(r"<link[^>]*\srel=\"stylesheet\"[^>]*\shref=\"\./([^\"]+)\"[^>]*>", _style, page)
    return re.sub(r"(<link[^>]*\shref=)\"\./([^\"]+\.svg)\"", _icon, page)


def _with_data(page: str, data: dict[str, Any]) -> str:
    """The page with the policy at the start of its head and the data at the end."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    script = f'<script type="application/json" id="clearhead-trace">{text}</script>'
    head, end = page.index("<head>") + len("<head>"), page.rindex("</head>")
    return page[:head] + policy + page[head:end] + script + page[end:]


def _script(found: re.Match[str]) -> str:
    code = (PAGE / found.group(1)).read_text(encoding="utf-8").replace("</script", "<\\/script")
    # A module runs after the page is parsed, wherever it stands.
    return f'<script type="module">{code}</script>'


def _style(found: re.Match[str]) -> str:
    rules = (PAGE / found.group(1)).read_text(encoding="utf-8").replace("</style", "<\\/style")
    return f"<style>{rules}</style>"


def _icon(found: re.Match[str]) -> str:
    data = base64.b64encode((PAGE / found.group(2)).read_bytes()).decode("ascii")
    return f'{found.group(1)}"data:image/svg+xml;base64,{data}"'
