"""The logit lens as a grid: after each layer, what the model would say at each place."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from clearhead.inspection.lens import Lens
from clearhead.inspection.pictures.matrix import legend_of_weights
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.scene import Scene
from clearhead.inspection.pictures.style import INK, SMALL, TINY, WEIGHT, shortened, weight_scale, write

# Of a longer text, its last places.
MOST = 24


def lens_picture(
    scene: Scene, lens: Lens, tokens: Sequence[str], comes: Sequence[str], piece: Callable[[int], str]
) -> Picture:
    """Layers upwards, places to the right: the best token, coloured by its probability."""
    first = max(0, len(tokens) - MOST)
    tokens, comes = tokens[first:], comes[first:]
    best, sure = lens.ids[:, first:, 0], lens.probabilities[:, first:, 0]
    rows, places = best.shape

    def draw(figure: Figure) -> None:
        figure.suptitle("Logit lens: what would be said if the model stopped here", fontsize=10, x=0.01, ha="left")
        axes = figure.subplots()
        image = axes.imshow(sure.numpy(), cmap=WEIGHT, norm=weight_scale(), aspect="auto", origin="lower")
        for row in range(rows):
            for place in range(places):
                said, probability = piece(int(best[row, place])), float(sure[row, place])
                right = said == comes[place]
                colour = "white" if probability > 0.3 else INK
                write(axes, place, row, shortened(said, 10), fontsize=TINY, color=colour, weight="bold" if right else "normal")
        axes.set_xticks(range(places), [shortened(one, 10) for one in tokens], fontsize=SMALL, parse_math=False)
        axes.tick_params(length=0, axis="both")
        axes.xaxis.get_ticklabels()
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(rows), lens.rows, fontsize=SMALL)
        axes.set_xlabel("token that is read", fontsize=SMALL)
        legend_of_weights(figure, image, axes)

    caption = (
        f"{scene} the stream after each layer, read out as if it were the last (logit lens). Bold: the token that comes; "
        "colour by the root of its probability."
    )
    last = [piece(int(one)) for one in best[-1]]
    met = [
        next((lens.rows[row] for row in range(rows) if all(piece(int(best[later, place])) == last[place] for later in range(row, rows))), "")
        for place in range(places)
    ]
    told = ", ".join(f"{token}: {said} from {row} on" for token, said, row in zip(tokens, last, met, strict=True))
    alt = f"Logit lens of {rows} rows and {places} places. After each token, what is said last and since when: {told}."
    return drawn(draw, (0.72 * places + 2.2, 0.3 * rows + 1.9), caption, alt)
