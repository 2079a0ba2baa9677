"""Which characters can be drawn: those of matplotlib's own font, and of some that are often installed."""

import functools
from itertools import groupby

from matplotlib.font_manager import findfont, fontManager, get_font

OWN = "DejaVu Sans"
FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Noto Sans Hebrew",
)


@functools.cache
def families() -> tuple[str, ...]:
    """The installed fonts, in the order in which they are tried."""
    installed = {font.name for font in fontManager.ttflist}
    return (OWN, *(name for name in FALLBACKS if name in installed))


@functools.cache
def _drawable(character: str) -> bool:
    return character == "\n" or any(
        get_font(findfont(name)).get_char_index(ord(character)) for name in families()
    )


def readable(text: str) -> str:
    """The text with characters that no font has replaced by a code point, the first of each run."""
    parts = []
    for drawable, characters in groupby(text, _drawable):
        run = "".join(characters)
        parts.append(run if drawable else f"U+{ord(run[0]):04X}" + "…" * (len(run) > 1))
    return "".join(parts)
