"""Lessons on attention, for every model that has it."""

from collections.abc import Mapping
from typing import Any

from clearhead.explorer.lessons.facts import Facts
from clearhead.explorer.lessons.lesson import Lesson, Line

Pick = Mapping[str, Any]


def row_lessons(facts: Facts, text: str, pick: Pick) -> list[Lesson]:
    """From a query and a key to a weight: similarity, scaling if there is one, softmax."""
    lessons = [_similarity(facts, text, pick)] if facts.scale is not None else [_score(facts, text, pick)]
    if facts.root is not None:
        lessons.append(_scaling(facts, facts.root, text, pick))
    return [*lessons, _softmax(facts, text, pick)]


def _similarity(facts: Facts, text: str, pick: Pick) -> Lesson:
    return Lesson(
        "Similarity: the dot product",
        "softmax",
        text,
        quote="How can we measure the similarity between words embedding? The dot product!",
        says=[
            Line(
                "Two vectors that point the same way have a large dot product; at right angles it is zero. "
                "A head uses it to find out how well a key matches a query."
            ),
            Line(
                "On the right is the same sum with the model’s numbers: the query of one token times the key "
                "of another, term by term."
            ),
        ],
        worked=["(1, 4) · (0, 3) = 1·0 + 4·3 = 12", "(1, 4) · (3, 0) = 1·3 + 4·0 = 3"],
        look=[
            Line(
                "Matrix 1 holds the products of all queries and keys. Click a cell: the strips below the "
                "table show its terms, and their sum is the number in the cell.",
                "products",
            )
        ],
        pick=pick,
    )


def _score(facts: Facts, text: str, pick: Pick) -> Lesson:
    return Lesson(
        "How well does a key match?",
        "softmax",
        text,
        says=[
            Line(
                f"Each query is compared with each key. This model does it by a learned function, the "
                f"{facts.about['score']} score, instead of a dot product."
            )
        ],
        look=[Line("The first matrix holds the scores of all queries and keys. Click a cell.", "scores")],
        pick=pick,
    )


def _scaling(facts: Facts, root: float, text: str, pick: Pick) -> Lesson:
    size, root_text = facts.head_size, f"{root:.4g}"
    return Lesson(
        "Scaling: ÷ √d",
        "softmax",
        text,
        quote="What to do when we have embeddings that has more than 1000 values?",
        says=[
            Line(
                "A sum of many products tends to grow with their number, and softmax would then give nearly "
                "all weight to one token. So the product is divided by √d, where d is the size of a head: "
                f"here √{size} = {root_text}.",
                "root",
            ),
            Line("The lecture’s example has two dimensions: closed = (1, 1), windows = (2, 0)."),
        ],
        worked=["closed · windows = 1·2 + 1·0 = 2", "2 ÷ √2 = 1.414"],
        look=[
            Line(
                f"Matrix 2 is matrix 1 divided by {root_text}: the same colours, another scale. Point at "
                "the same cell in both.",
                "scaled",
            )
        ],
        pick=pick,
    )


def _softmax(facts: Facts, text: str, pick: Pick) -> Lesson:
    begin = "q · k" if facts.scale is not None else "the score"
    return Lesson(
        "Softmax: weights that sum to 1",
        "softmax",
        text,
        quote="Want coefficients to add to 1. Need coefficients to be positive!",
        says=[
            Line(
                "Scores can be negative, weights cannot. eˣ makes every number positive and keeps the "
                "order; dividing by the sum makes them add up to 1."
            )
        ],
        worked=[
            "e¹ ÷ (e¹ + e⁰·⁷¹) = 0.57 Orange, 0.43 Apple",
            "e¹ ÷ (e¹ + e⁻¹) = 0.88 Orange, 0.12 Motorcycle",
        ],
        look=[
            Line(
                f"The table shows one row of the matrices, from {begin} to the weight α. Its last line "
                "shows that the weights sum to 1.",
                "sums",
            )
        ],
        pick=pick,
    )


def projections(facts: Facts, text: str, pick: Pick, quote: str) -> Lesson:
    """Where queries, keys and values come from."""
    return Lesson(
        "Queries, keys, values",
        "projections",
        text,
        quote=quote,
        says=[
            Line(
                "“But where are the parameters?” Here: each head has three matrices, which turn a token’s "
                "vector into its query, its key and its value. Queries are compared with keys; values are "
                "averaged by how well their keys match."
            ),
            Line(
                "Together with Wᴼ, the matrix that joins the heads, they hold nearly all of attention’s "
                "parameters.",
                "parameters",
            ),
        ],
        look=[
            Line(
                "You see one number of one query as a sum of products. You could check it by hand.",
                "projection",
            ),
            Line("Switch between Q, K and V: the same token, three vectors.", "three vectors"),
        ],
        pick=pick,
    )


POSITIONS = {
    "sinusoidal": "So the model adds a different pattern at each position, made of sine and cosine waves.",
    "learned": "So the model adds a vector to each position, which it learned in training.",
    "order": "So the model adds the position itself, as a number, to every dimension.",
    "fraction": "So the model adds the position as a fraction of the length to every dimension.",
    "rotary": "So every attention rotates its queries and keys by an angle that grows with the position "
    "(rotary positions). Nothing is added to the embedding.",
    "alibi": "So every attention lowers a score in proportion to the distance of query and key (ALiBi). "
    "Nothing is added to the embedding.",
    "none": "This model has no positional encoding: only the mask, if there is one, tells it about order.",
}
"""What a model does about the order of tokens, by the kind of its positions."""


def order(facts: Facts) -> Line:
    """What this model does about the order of tokens."""
    done = POSITIONS.get(facts.position, f"So the model has positions of its own kind, {facts.position}.")
    return Line(
        f"Attention alone ignores order: if you shuffle the tokens, each pair keeps its score. {done}",
        "position kind",
    )
