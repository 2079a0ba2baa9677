"""A trace as one HTML file: the built page with its script and style, and all answers, inlined."""

import base64
import json
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from clearhead.errors import ModelError
from clearhead.explorer.architecture import bare_architecture
from clearhead.explorer.arrays import array_of
from clearhead.explorer.beam import beam
from clearhead.explorer.distribution import Cut
from clearhead.explorer.measures import lens, summaries
from clearhead.explorer.positions import position_table
from clearhead.explorer.run import LATER
from clearhead.explorer.trace_session import FORMAT, TraceSession
from clearhead.inspection.explanation import Explanation

PAGE = Path(str(files("clearhead.explorer") / "page"))
EXACT_BYTES = 16_000_000
"""Larger tensors are written in halves; if twice as large, without what is behind the weights."""
# Nothing but what is in the file may run or be shown: it can be opened without a network, and asks for none.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def standalone_page(explanation: Explanation) -> str:
    """A page that works from file://, with everything that an explanation holds."""
    about = bare_architecture(explanation.model, explanation.processor, explanation.name or "model")
    told = TraceSession(explanation, about)
    return _with(_whole_page(), answers(told))


def answers(told: TraceSession) -> dict[str, Any]:
    """All that the page would ask a server for, but what needs the model itself."""
    kept = {
        name: entry for name, entry in told.catalogue.items() if entry.role != "logits" and told.holds(name)
    }
    size = sum(4 * math.prod(entry.shape) for entry in kept.values())
    if size > 2 * EXACT_BYTES:
        kept = {name: entry for name, entry in kept.items() if entry.role not in LATER}
    dtype = "f32" if size <= EXACT_BYTES else "f16"
    tree = None if told.tree is None else beam(told)
    manifest = told.manifest()
    if tree:
        manifest["model"] |= {"beam": tree["beam"], "alpha": tree["alpha"]}
    manifest["tensors"] = [entry.record() for entry in kept.values()]
    manifest["parts"] = ["summaries", "logits", "lens", *(["beam"] if tree else [])]
    kind, table = position_table(told.model, max(map(len, told.sides.values())))
    return {
        "format": FORMAT,
        "manifest": manifest,
        "summaries": summaries(told),
        "lens": lens(told, 3),
        "beam": tree,
        "logits": {str(place): told.logits(place, Cut()) for place in range(len(told.read))},
        "tensors": {name: array_of(told.values(name), dtype).record() for name in kept},
        "positions": {"kind": kind, **table.record()},
    }


def _whole_page() -> str:
    """The built page with its script, style and icon inside."""
    entry = PAGE / "index.html"
    if not entry.is_file():
        raise ModelError(f"{entry}: the explorer's page is not built; run scripts/page")
    page = entry.read_text(encoding="utf-8")
    page = re.sub(r"<script[^>]*\ssrc=\"\./([^\"]+)\"[^>]*>\s*</script>", _script, page)
    page = re.sub(r"<link[^>]*\srel=\"stylesheet\"[^>]*\shref=\"\./([^\"]+)\"[^>]*>", _style, page)
    return re.sub(r"(<link[^>]*\shref=)\"\./([^\"]+\.svg)\"", _icon, page)


def _with(page: str, told: dict[str, Any]) -> str:
    """The page with the answers at the end of its head, and the policy before all."""
    text = json.dumps(told, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    data = f'<script type="application/json" id="clearhead-trace">{text}</script>'
    head, end = page.index("<head>") + len("<head>"), page.rindex("</head>")
    return page[:head] + policy + page[head:end] + data + page[end:]


def _script(found: re.Match[str]) -> str:
    code = (PAGE / found.group(1)).read_text(encoding="utf-8").replace("</script", "<\\/script")
    # A module runs when the page is there, wherever it stands.
    return f'<script type="module">{code}</script>'


def _style(found: re.Match[str]) -> str:
    rules = (PAGE / found.group(1)).read_text(encoding="utf-8").replace("</style", "<\\/style")
    return f"<style>{rules}</style>"


def _icon(found: re.Match[str]) -> str:
    data = base64.b64encode((PAGE / found.group(2)).read_bytes()).decode("ascii")
    return f'{found.group(1)}"data:image/svg+xml;base64,{data}"'
