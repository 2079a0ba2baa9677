"""Which signs can be drawn here: those of the font that comes along, and of some that are often installed."""

import functools
from itertools import groupby

from matplotlib.font_manager import findfont, fontManager, get_font

OWN = "DejaVu Sans"
OFTEN = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Noto Sans Hebrew",
)


@functools.cache
def families() -> tuple[str, ...]:
    """The fonts to draw with; what the first lacks is looked for in the next."""
    installed = {font.name for font in fontManager.ttflist}
    return (OWN, *(name for name in OFTEN if name in installed))


@functools.cache
def _drawable(sign: str) -> bool:
    return sign == "\n" or any(get_font(findfont(name)).get_char_index(ord(sign)) for name in families())


def readable(text: str) -> str:
    """The text with what no font here can draw written as a number: of several signs in a row, the first."""
    parts = []
    for drawable, signs in groupby(text, _drawable):
        run = "".join(signs)
        parts.append(run if drawable else f"U+{ord(run[0]):04X}" + "…" * (len(run) > 1))
    return "".join(parts)
