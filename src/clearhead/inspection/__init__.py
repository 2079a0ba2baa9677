"""Looking inside a model, and changing what happens there."""

from clearhead.inspection.sites import sites
from clearhead.inspection.trace import Trace, capture

__all__ = ["Trace", "capture", "sites"]
