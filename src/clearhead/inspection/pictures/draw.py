"""The table of pictures, VIEWS: to add a picture, write one file in this folder and add one row here."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from clearhead.errors import SettingsError
from clearhead.inspection.explanation import Explanation
from clearhead.inspection.pictures.arithmetic import row_view
from clearhead.inspection.pictures.atlas import atlas_view
from clearhead.inspection.pictures.beam import beam_view
from clearhead.inspection.pictures.context import PictureContext, Selection
from clearhead.inspection.pictures.cross import cross_view
from clearhead.inspection.pictures.distance import distance_view
from clearhead.inspection.pictures.gates import gates_view
from clearhead.inspection.pictures.gradient import gradient_view
from clearhead.inspection.pictures.head import head_view
from clearhead.inspection.pictures.lens import lens_view
from clearhead.inspection.pictures.neighbours import has_neighbours, neighbours_view
from clearhead.inspection.pictures.patch_embedding import filters_view, grid_view, has_filters, has_grid
from clearhead.inspection.pictures.patches import (
    has_patches,
    has_regions,
    patches_view,
    regions_view,
    rollout_view,
)
from clearhead.inspection.pictures.picture import Picture
from clearhead.inspection.pictures.positions import has_positions, positions_view
from clearhead.inspection.pictures.relevance import relevance_view
from clearhead.inspection.pictures.residual import residual_view
from clearhead.inspection.pictures.transitions import has_transitions, transitions_view


@dataclass(frozen=True)
class View:
    """A kind of picture."""

    draw: Callable[[PictureContext], Picture]
    available: Callable[[PictureContext], bool]
    """Whether an explanation has the data for it."""
    selects: tuple[str, ...] = ()
    """The fields of `Selection` that it uses."""


def _has_attention(context: PictureContext) -> bool:
    return bool(context.anatomy.attentions)


def _has_residual(context: PictureContext) -> bool:
    return any(context.summaries.has_streams(part.stack) for part in context.anatomy.attentions)


VIEWS: Mapping[str, View] = MappingProxyType(
    {
        "relevance": View(relevance_view, lambda context: context.explanation.relevance is not None),
        "cross": View(cross_view, lambda context: context.summaries.has_words, ("layer", "head")),
        "regions": View(regions_view, has_regions, ("attention", "layer", "head")),
        "patches": View(patches_view, has_patches, ("attention", "layer", "query")),
        "rollout": View(rollout_view, has_patches, ("attention", "query")),
        "distance": View(distance_view, has_patches, ("attention",)),
        "grid": View(grid_view, has_grid),
        "filters": View(filters_view, has_filters),
        "atlas": View(atlas_view, _has_attention, ("attention",)),
        "head": View(head_view, _has_attention, ("attention", "layer", "head")),
        "row": View(row_view, _has_attention, ("attention", "layer", "head", "query")),
        "residual": View(residual_view, _has_residual, ("attention",)),
        "lens": View(lens_view, lambda context: context.summaries.has_lens),
        "gates": View(gates_view, lambda context: bool(context.anatomy.recurrences), ("layer",)),
        "gradient": View(gradient_view, lambda context: context.summaries.has_gradients),
        "beam": View(beam_view, lambda context: context.explanation.tree is not None),
        "positions": View(positions_view, has_positions),
        "neighbours": View(neighbours_view, has_neighbours),
        "transitions": View(transitions_view, has_transitions),
    }
)
"""The pictures by name, most informative first."""


def views(explanation: Explanation) -> list[str]:
    """The names of the pictures that an explanation has, most informative first."""
    context = PictureContext(explanation, Selection())
    return [name for name, view in VIEWS.items() if view.available(context)]


def draw(explanation: Explanation, view: str | None = None, selection: Selection | None = None) -> Picture:
    """A picture of an explanation; the most informative one if none is named."""
    available = views(explanation)
    if not available:
        raise SettingsError(f"{explanation.kind}: there is nothing to draw; its anatomy names no parts")
    view = view or available[0]
    if view not in available:
        raise SettingsError(f"view: {view!r} is not one of {', '.join(available)}")
    selection = selection or Selection()
    for name, value in asdict(selection).items():
        if value is not None and name not in VIEWS[view].selects:
            others = ", ".join(one for one in available if name in VIEWS[one].selects)
            advice = f"it applies to {others}" if others else "no picture of this model takes it"
            raise SettingsError(f"{name}: {value} does not apply to the view {view}; {advice}")
    return VIEWS[view].draw(PictureContext(explanation, selection))


def fitting(view: str, selection: Selection) -> Selection:
    """The part of a selection that a view uses."""
    return Selection(**{name: one for name, one in asdict(selection).items() if name in VIEWS[view].selects})
