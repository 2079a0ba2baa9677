"""The residual stream: how long its vectors get, and what each sub-layer brings."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import HEADS, SMALL, TINY, write
from clearhead.inspection.pictures.subject import Subject
from clearhead.inspection.summaries import Brought

COLOURS = {"attention": HEADS[0], "cross_attention": HEADS[1], "feedforward": HEADS[2]}


def residual_picture(subject: Subject, stack: str, sublayers: Sequence[Brought]) -> Picture:
    """The share of every sub-layer, and the length of the stream after it; each dot a position."""

    def draw(figure: Figure) -> None:
        figure.suptitle(f"{stack}: what each sub-layer brings to the stream", fontsize=10, x=0.01, ha="left")
        above, below = figure.subplots(2, 1, sharex=True)
        for number, one in enumerate(sublayers):
            colour = COLOURS[one.kind]
            above.bar(number, float(one.share.mean()), color=colour, alpha=0.35, width=0.7)
            below.bar(number, float(one.norm.mean()), color=colour, alpha=0.35, width=0.7)
            for axes, values in ((above, one.share), (below, one.norm)):
                axes.plot([number] * len(values), values.numpy(), ".", color=colour, markersize=3)
            write(above, number, 0.01, f"{float(one.share.mean()):.0%}", va="bottom", fontsize=TINY)
        names = [f"{one.kind.replace('_', '-')}\nlayer {one.layer}" for one in sublayers]
        below.set_xticks(
            range(len(names)), names, fontsize=TINY, rotation=45, ha="right", rotation_mode="anchor"
        )
        above.set_ylabel("share brought", fontsize=SMALL)
        below.set_ylabel("length of the stream", fontsize=SMALL)
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(axis="y", labelsize=TINY, length=2)

    caption = (
        f"{subject} the residual stream of the {stack}. Above: the length of what a sub-layer adds, as a "
        "share of it and of what was there; below: the length of the stream afterwards. Bars "
        "are means, dots are tokens."
    )
    told = ", ".join(f"{one.name} {float(one.share.mean()):.0%}" for one in sublayers)
    alt = f"What each sub-layer of the {stack} brings to the residual stream, on average: {told}."
    return drawn(draw, (0.62 * len(sublayers) + 2.0, 5.0), caption, alt)
