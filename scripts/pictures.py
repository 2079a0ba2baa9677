"""Draws the pictures of docs/pictures.md with the model in the package: `python scripts/pictures.py`."""

from pathlib import Path

import clearhead

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
SENTENCE = "I have never been so tired in my life."
SHORT = "I closed the windows."
LONGER = "I bought a new computer and closed the windows."
PICTURES = {
    "words": (SENTENCE, "cross", {}),
    "encoder": (SENTENCE, "atlas", {"attention": "encoder"}),
    "head": (SENTENCE, "head", {"attention": "decoder", "layer": 1, "head": 1}),
    "row": (SHORT, "row", {"attention": "decoder", "layer": 1, "head": 1, "query": 3}),
    "residual": (SENTENCE, "residual", {}),
    "lens": (SENTENCE, "lens", {}),
    "beam": (SHORT, "beam", {}),
    "positions": (SHORT, "positions", {}),
    "neighbours": (LONGER, "neighbours", {}),
}
"""The sentence, the view and the selection of each picture."""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    model = clearhead.load("en-de")
    explanations = {text: model.explain(text) for text in (SENTENCE, SHORT, LONGER)}
    for name, (text, view, selection) in PICTURES.items():
        explanations[text].save(FOLDER / f"{name}.png", view, **selection)


if __name__ == "__main__":
    main()
