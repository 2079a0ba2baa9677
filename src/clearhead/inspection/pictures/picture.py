"""A picture: a figure with its caption and alt text, which can be saved and shown."""

import base64
import functools
import io
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.text import Text
from matplotlib.ticker import Formatter

from clearhead.errors import SettingsError
from clearhead.files import atomic_path

FORMATS = ("png", "svg", "pdf")
DPI = 160
"""Resolution of a PNG."""
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Noto Sans Hebrew",
)
"""Matplotlib's own font, and some that are often installed."""
_lock = threading.Lock()


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """A figure with its caption and alt text; notebooks show it."""

    figure: Figure
    caption: str
    """Stands alone: it names the model, the text, the head and the scale."""
    alt: str
    """Describes the picture in words, from the numbers."""

    def save(self, path: Path | str) -> Path:
        """Writes a .png, .svg or .pdf file atomically."""
        path = Path(path)
        data = self.content(check_picture(path))
        with atomic_path(path) as temporary:
            temporary.write_bytes(data)
        return path

    def content(self, kind: str = "png") -> bytes:
        """The content of a file of this kind."""
        buffer = io.BytesIO()
        with _settings(), self._drawable(kind):
            about = self._metadata(kind)
            self.figure.savefig(buffer, format=kind, dpi=DPI, metadata=about, facecolor="white")
        return self._described(buffer.getvalue()) if kind == "svg" else buffer.getvalue()

    @contextmanager
    def _drawable(self, kind: str) -> Iterator[None]:
        """Replaces characters that no font here has; an SVG keeps them, as its viewer may have the font."""
        texts = [(text, text.get_text()) for text in self.figure.findobj(Text)]
        # matplotlib writes tick labels again whenever it draws.
        axes = [axis for one in self.figure.axes for axis in (one.xaxis, one.yaxis)]
        formatters = [axis.get_major_formatter() for axis in axes]
        try:
            if kind != "svg":
                caption = _wrapped(self.caption, self.figure)
                shown = _wrapped(readable(self.caption), self.figure)
                for text, original in texts:
                    text.set_text(shown if original == caption else readable(original))
                for axis, formatter in zip(axes, formatters, strict=True):
                    axis.set_major_formatter(_ReadableTicks(formatter))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Glyph .* missing")
                yield
        finally:
            for text, original in texts:
                text.set_text(original)
            for axis, formatter in zip(axes, formatters, strict=True):
                axis.set_major_formatter(formatter)

    def _metadata(self, kind: str) -> dict[str, Any]:
        match kind:
            case "png":
                return {"Title": self.caption, "Description": self.alt, "Software": "clearhead"}
            case "pdf":
                texts = {"Title": self.caption, "Subject": self.alt}
                return {**texts, "Creator": "clearhead", "CreationDate": None}
            case _:
                return {"Date": None, "Creator": "clearhead"}

    def _described(self, svg: bytes) -> bytes:
        """The SVG with a title and a description for screen readers."""
        start = svg.index(b"<svg")
        close = svg.index(b">", start)
        text = f"<title>{escape(self.caption)}</title><desc>{escape(self.alt)}</desc>"
        return svg[:close] + b' role="img">' + text.encode() + svg[close + 1 :]

    def __repr__(self) -> str:
        return f"Picture({self.caption})"

    def _repr_png_(self) -> bytes:
        return self.content("png")

    def _repr_svg_(self) -> str:
        return self.content("svg").decode()

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.content("png")).decode()
        width, _ = self.figure.get_size_inches()
        return (
            f'<figure style="margin:0"><img style="max-width:100%" width="{width * 96:.0f}" '
            f'alt="{escape(self.alt)}" src="data:image/png;base64,{data}"/></figure>'
        )


def make_picture(
    title: str, draw: Callable[[Figure], None], size: tuple[float, float], caption: str, alt: str
) -> Picture:
    """A picture of a size in inches, with the title above the figure and the caption below."""
    with _settings():
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
        draw(figure)
        below = {"fontsize": 7.5, "color": "#444444", "parse_math": False}
        figure.supxlabel(_wrapped(caption, figure), x=0.01, ha="left", **below)
    return Picture(figure, caption, alt)


@functools.cache
def families() -> tuple[str, ...]:
    """The installed fonts, in the order in which they are tried."""
    installed = {font.name for font in fontManager.ttflist}
    return tuple(name for name in FONTS if name in installed)


@functools.cache
def _drawable(character: str) -> bool:
    fonts = (get_font(findfont(name)) for name in families())
    return character == "\n" or any(font.get_char_index(ord(character)) for font in fonts)


def readable(text: str) -> str:
    """The text with characters that no font has replaced by a code point, the first of each run."""
    parts = []
    for drawable, characters in groupby(text, _drawable):
        run = "".join(characters)
        parts.append(run if drawable else f"U+{ord(run[0]):04X}" + "…" * (len(run) > 1))
    return "".join(parts)


def _wrapped(caption: str, figure: Figure) -> str:
    """The caption in lines that fit below the figure."""
    return "\n".join(textwrap.wrap(caption, max(40, int(figure.get_size_inches()[0] * 17))))


class _ReadableTicks(Formatter):
    """A formatter of tick labels with characters that no font has replaced."""

    def __init__(self, inner: Formatter):
        self.inner = inner

    def __call__(self, x: float, pos: int | None = None) -> str:
        return readable(self.inner(x, pos))

    def set_locs(self, locs: list[float]) -> None:
        # Without the ticks' values, the formatter of plain numbers writes nothing.
        self.inner.set_locs(locs)


@contextmanager
def _settings() -> Iterator[None]:
    """matplotlib's settings; they are global, so only one picture is drawn at a time."""
    # Text stays text, and files are reproducible.
    settings: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "clearhead"}
    with _lock, matplotlib.rc_context({**settings, "font.family": list(families())}):
        yield


def check_picture(path: Path) -> str:
    """The kind of picture that a path names; raises SettingsError if it names none."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise SettingsError(f"{path}: not a picture; use {', '.join('.' + one for one in FORMATS)}")
    return kind
