"""From an explanation to its pictures: which there are, and what each is made from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.errors import SettingsError
from clearhead.inspection.alignment import (
    SIGN,
    Aligner,
    Words,
    agreements,
    cross_roles,
    merge_words,
    rank_aligners,
)
from clearhead.inspection.lens import logit_lens
from clearhead.inspection.pictures.atlas import atlas_picture
from clearhead.inspection.pictures.cross import Merged, cross_picture
from clearhead.inspection.pictures.head import head_picture
from clearhead.inspection.pictures.lens import lens_picture
from clearhead.inspection.pictures.neighbours import Neighbours, neighbours_picture
from clearhead.inspection.pictures.picture import Picture
from clearhead.inspection.pictures.positions import positions_picture
from clearhead.inspection.pictures.residual import Brought, residual_picture
from clearhead.inspection.pictures.row import Row, row_picture
from clearhead.inspection.pictures.scene import Scene, Seen
from clearhead.inspection.summaries import head_roles, residual_share
from clearhead.inspection.vectors import nearest, position_table
from clearhead.layers.attention import Attention
from clearhead.layers.block import Stack
from clearhead.layers.scores import ProductScore
from clearhead.models import GPT

if TYPE_CHECKING:
    from clearhead.tasks.explaining import Explanation, Token
