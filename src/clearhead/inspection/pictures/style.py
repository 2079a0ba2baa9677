"""The style of all pictures: colours, scales, and text that is never parsed as a formula."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import PathPatch
from matplotlib.path import Path

WEIGHT = LinearSegmentedColormap.from_list(
    "weight", ["#ffffff", "#d3e3f3", "#8fbbde", "#4189c1", "#145a9e", "#08306b"]
)
"""One hue, white at zero."""
SIGNED = LinearSegmentedColormap.from_list(
    "signed", ["#14508f", "#5a9bd0", "#c3dcee", "#ffffff", "#fbd7b0", "#ec8f3c", "#a84e06"]
)
"""Blue below zero, orange above."""
HEADS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7a4ba0", "#555555")
"""At most eight heads have colours, and their numbers stand beside them (after Okabe and Ito 2008)."""
INK, FAINT, GRID = "#1a1a1a", "#6b6b6b", "#d9d9d9"
SMALL, TINY = 8.0, 6.5
TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Ticks on the scale of weights, which is a square-root scale."""


def weight_scale() -> PowerNorm:
    """A square-root scale from 0 to 1, on which a weight of 0.01 is still visible."""
    return PowerNorm(0.5, vmin=0.0, vmax=1.0)


def signed_scale(largest: float) -> Normalize:
    """A scale that is symmetric around zero."""
    largest = largest or 1.0
    return Normalize(-largest, largest)


def shortened(text: str, max_length: int = 16) -> str:
    """A token as a short label."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Writes text, in which a dollar sign starts no formula."""
    merged = {"fontsize": SMALL, "color": INK, "ha": "center", "va": "center", **style}
    axes.text(x, y, text, parse_math=False, **merged)


def colour_bar(figure: Figure, image: AxesImage, axes: Axes, name: str = "", **style: Any) -> Axes:
    """Adds the scale of an image beside its axes and returns the axes of the scale."""
    bar = figure.colorbar(image, ax=axes, **{"shrink": 0.8, "pad": 0.02, "aspect": 30, **style})
    bar.ax.set_title(name, fontsize=SMALL, color=FAINT)
    bar.ax.tick_params(labelsize=TINY, length=2)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return bar.ax


def curve(points: Sequence[tuple[float, float]], **style: Any) -> PathPatch:
    """A Bézier curve with four points."""
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    return PathPatch(path, facecolor="none", **style)
