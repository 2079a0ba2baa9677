"""The residual stream: its norm, and what each sublayer adds to it."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import HEADS, SMALL, TINY, write
from clearhead.inspection.summaries import ResidualContribution

COLOURS = {"attention": HEADS[0], "cross_attention": HEADS[1], "feedforward": HEADS[2]}


def residual_view(context: PictureContext) -> Picture:
    stack = context.summaries.part(context.kind).stack or context.anatomy.stacks[-1].path
    return residual_picture(context.subject, stack, context.summaries.residual_contributions(stack))


def residual_picture(subject: Subject, stack: str, sublayers: Sequence[ResidualContribution]) -> Picture:
    """The share of every sublayer, and the norm of the stream after it; each dot is a position."""

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True)
        for number, one in enumerate(sublayers):
            colour = COLOURS[one.kind]
            above.bar(number, float(one.share.mean()), color=colour, alpha=0.35, width=0.7)
            below.bar(number, float(one.norm.mean()), color=colour, alpha=0.35, width=0.7)
            for axes, values in ((above, one.share), (below, one.norm)):
                axes.plot([number] * len(values), values.numpy(), ".", color=colour, markersize=3)
            write(above, number, 0.01, f"{float(one.share.mean()):.0%}", va="bottom", fontsize=TINY)
        names = [f"{one.kind.replace('_', '-')}\nlayer {one.layer}" for one in sublayers]
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        below.set_xticks(range(len(names)), names, fontsize=TINY, **slanted)
        above.set_ylabel("share added", fontsize=SMALL)
        below.set_ylabel("norm of the stream", fontsize=SMALL)
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(axis="y", labelsize=TINY, length=2)

    caption = (
        f"{subject} the residual stream of the {stack}. Above: the norm of what a sublayer adds, as a share "
        "of that norm plus the norm of the stream before; below: the norm of the stream afterwards. Bars are "
        "means, dots are tokens."
    )
    shares = ", ".join(f"{one.name} {float(one.share.mean()):.0%}" for one in sublayers)
    alt = f"What each sublayer of the {stack} adds to the residual stream, on average: {shares}."
    title = f"{stack}: what each sublayer adds to the residual stream"
    return make_picture(title, draw, (0.62 * len(sublayers) + 2.0, 5.0), caption, alt)
