"""A picture that can be saved and shown: a figure, its caption, and what it shows in words."""

import base64
import io
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import Formatter, FuncFormatter

from clearhead.errors import SettingsError
from clearhead.files import atomic_path
from clearhead.inspection.pictures.fonts import families, readable

FORMATS = ("png", "svg", "pdf")
DOTS = 160
"""Of a PNG, on an inch."""
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure; it shows itself in notebooks, and is saved as what the name's ending says."""

    figure: Figure
    caption: str
    """Says of which model, text and head, and how values are shown: it stands alone."""
    alt: str
    """What can be seen, in words made from the numbers."""

    def save(self, path: Path | str) -> Path:
        """Writes a .png, .svg or .pdf file, whole or not at all."""
        path = Path(path)
        kind = picture_kind(path)
        data = self.content(kind)
        with atomic_path(path) as temporary:
            temporary.write_bytes(data)
        return path

    def content(self, kind: str = "png") -> bytes:
        """The file's content."""
        held = io.BytesIO()
        with _settings(), self._drawable(kind):
            self.figure.savefig(held, format=kind, dpi=DOTS, metadata=self._metadata(kind), facecolor="white")
        return self._described(held.getvalue()) if kind == "svg" else held.getvalue()

    @contextmanager
    def _drawable(self, kind: str) -> Iterator[None]:
        """An SVG keeps all text, as whoever shows it may have the font; elsewhere it must be drawn here."""
        texts = [(text, text.get_text()) for text in self.figure.findobj(Text)]
        # The labels of ticks are written anew whenever a picture is drawn.
        axes = [
            (axis, axis.get_major_formatter()) for one in self.figure.axes for axis in (one.xaxis, one.yaxis)
        ]
        try:
            if kind != "svg":
                for text, said in texts:
                    caption = said == _wrapped(self.caption, self.figure)
                    text.set_text(
                        _wrapped(readable(self.caption), self.figure) if caption else readable(said)
                    )
                for axis, formatter in axes:
                    axis.set_major_formatter(FuncFormatter(partial(_readable_tick, formatter)))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Glyph .* missing")
                yield
        finally:
            for text, said in texts:
                text.set_text(said)
            for axis, formatter in axes:
                axis.set_major_formatter(formatter)

    def _metadata(self, kind: str) -> dict[str, Any]:
        match kind:
            case "png":
                return {"Title": self.caption, "Description": self.alt, "Software": "clearhead"}
            case "pdf":
                return {
                    "Title": self.caption,
                    "Subject": self.alt,
                    "Creator": "clearhead",
                    "CreationDate": None,
                }
            case _:
                return {"Date": None, "Creator": "clearhead"}

    def _described(self, svg: bytes) -> bytes:
        """With what a screen reader says of it."""
        start = svg.index(b"<svg")
        close = svg.index(b">", start)
        told = f"<title>{escape(self.caption)}</title><desc>{escape(self.alt)}</desc>"
        return svg[:close] + b' role="img">' + told.encode() + svg[close + 1 :]

    def _repr_html_(self) -> str:
        held = base64.b64encode(self.content("png")).decode()
        width, _ = self.figure.get_size_inches()
        return (
            f'<figure style="margin:0"><img style="max-width:100%" width="{width * 96:.0f}" '
            f'alt="{escape(self.alt)}" src="data:image/png;base64,{held}"/></figure>'
        )


def picture_kind(path: Path) -> str:
    """png, svg or pdf, from a file's ending."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise SettingsError(f"{path}: a picture ends in {', '.join('.' + one for one in FORMATS)}")
    return kind


def drawn(draw: Callable[[Figure], None], size: tuple[float, float], caption: str, alt: str) -> Picture:
    """A picture of this size in inches, drawn by a function, with its caption below."""
    with _settings():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.supxlabel(
            _wrapped(caption, figure), x=0.01, ha="left", fontsize=7.5, color="#444444", parse_math=False
        )
    return Picture(figure, caption, alt)


def _wrapped(caption: str, figure: Figure) -> str:
    """In lines that fit below the figure."""
    return "\n".join(textwrap.wrap(caption, max(40, int(figure.get_size_inches()[0] * 17))))


def _readable_tick(formatter: Formatter, value: float, position: int | None) -> str:
    return readable(formatter(value, position))


@contextmanager
def _settings() -> Iterator[None]:
    """The settings of the drawing library are the process's: one picture is drawn at a time."""
    # Text stays text, and the same picture is the same file.
    settings: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "clearhead"}
    with _lock, matplotlib.rc_context({**settings, "font.family": list(families())}):
        yield
