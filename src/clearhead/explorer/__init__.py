"""The explorer: what the page is told, its routes, and the built page."""

from clearhead.inspection.explanation import WRITERS, Explanation


def _html(explanation: Explanation) -> str:
    from clearhead.explorer.standalone import standalone_page

    return standalone_page(explanation)


# `Explanation.save("x.html")` is answered from here: inspection cannot import what lies above it.
WRITERS["html"] = _html
