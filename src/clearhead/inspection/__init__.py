"""Capturing and changing the tensors of a forward pass, and explaining it."""

from clearhead.inspection.edits import Edit, HidePatches, KeepOnly, Mute, Patch, SetPosition, SetRow, Swap
from clearhead.inspection.explanation import Explanation, Token, explain_pass
from clearhead.inspection.image import PatchImage
from clearhead.inspection.intervene import intervene
from clearhead.inspection.sites import sites
from clearhead.inspection.trace import Trace, capture

__all__ = [
    "Edit",
    "Explanation",
    "HidePatches",
    "KeepOnly",
    "Mute",
    "Patch",
    "PatchImage",
    "SetPosition",
    "SetRow",
    "Swap",
    "Token",
    "Trace",
    "capture",
    "explain_pass",
    "intervene",
    "sites",
]
