"""The explorer: a local server, its JSON contract (docs/trace.md) and the built page."""

from clearhead.inspection.explanation import WRITERS, Explanation


def _html(explanation: Explanation) -> str:
    from clearhead.explorer.standalone import standalone_page

    return standalone_page(explanation)


# `Explanation.save("x.html")` needs the page, and inspection cannot import the floor above it.
WRITERS["html"] = _html
