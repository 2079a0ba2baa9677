"""Looking inside a model, and changing what happens there."""

from clearhead.inspection.edits import Edit, Keep, Move, Mute, Patch, Row, Swap
from clearhead.inspection.intervene import intervene
from clearhead.inspection.sites import sites
from clearhead.inspection.trace import Trace, capture

__all__ = ["Edit", "Keep", "Move", "Mute", "Patch", "Row", "Swap", "Trace", "capture", "intervene", "sites"]
