"""The gradient that reaches each source token from each prediction."""

from collections.abc import Sequence

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from clearhead.inspection.gradients import Norms
from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.head import CELL
from clearhead.inspection.pictures.matrix import label_tokens
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import SMALL, TINY, WEIGHT, colour_bar


def gradient_view(context: PictureContext) -> Picture:
    explanation = context.explanation
    following = [token.next for token in explanation.target if token.next is not None]
    sources = [token.piece for token in explanation.source]
    return gradient_picture(
        context.subject, context.summaries.gradients, explanation.pieces(following), sources
    )


def gradient_picture(
    subject: Subject, norms: Norms, targets: Sequence[str], sources: Sequence[str]
) -> Picture:
    """A row for each predicted token, and below them the sum over all of them."""
    rows, columns = norms.shape
    total = norms.sum(0)

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(max(rows, 4), 3))
        scale = PowerNorm(0.5, vmin=0.0, vmax=float(norms.max()) or 1.0)
        image = above.imshow(norms.numpy(), cmap=WEIGHT, norm=scale, aspect="auto", interpolation="nearest")
        label_tokens(above, targets, sources)
        above.set_ylabel("predicted ↓ source →", fontsize=SMALL)
        colour_bar(figure, image, above, "‖∇‖")
        below.bar(range(columns), total.tolist(), color=WEIGHT(0.6), width=0.8)
        below.set_ylabel("sum", fontsize=SMALL)
        below.spines[["top", "right"]].set_visible(False)
        below.tick_params(labelsize=TINY, length=2, labelbottom=False)

    caption = (
        f"{subject} the gradient of the log-probability of each predicted token at the embedding of each "
        "source token, as a norm; colour by its square root. Below: the sum over all predicted tokens."
    )
    ranked = sorted(zip((total / total.sum()).tolist(), sources, strict=True), reverse=True)[:8]
    listed = ", ".join(f"{token} {part:.0%}" for part, token in ranked)
    alt = f"Gradient at each source token. Largest shares of its sum: {listed}."
    size = (max(4.0, CELL * columns + 2.4), max(3.2, CELL * rows + 2.4))
    return make_picture("Gradient reaching each source token", draw, size, caption, alt)
