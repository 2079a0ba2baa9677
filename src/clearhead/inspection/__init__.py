"""Looking inside a model."""

from clearhead.inspection.trace import Trace, capture

__all__ = ["Trace", "capture"]
