"""The lessons of a language model."""

from clearhead.explorer.lessons.attention import POSITIONS, projections, row_lessons
from clearhead.explorer.lessons.examples import PROMPT
from clearhead.explorer.lessons.facts import Facts
from clearhead.explorer.lessons.lesson import Lesson, Line

MORE = ", in a world where magic flowed as freely as the rivers"
QUERY = 3


def gpt_lessons(facts: Facts) -> list[Lesson]:
    """The tour of a GPT."""
    pick = {
        "attention": facts.about["attentions"][0]["name"],
        "layer": 0,
        "head": 0,
        "query": QUERY,
        "key": 1,
    }
    quote = "If q is most similar to key i, then we use value vᵢ."
    return [
        _tokens(facts),
        _embedding(facts),
        *row_lessons(facts, PROMPT, pick),
        projections(facts, PROMPT, {**pick, "key": QUERY}, quote),
        _mask(facts),
        _heads(facts),
        _residual(facts),
        _next_token(facts),
        _generate(facts),
    ]


def _tokens(facts: Facts) -> Lesson:
    assert facts.tokenizer is not None
    ids = facts.tokenizer.encode(PROMPT)
    begin = ", ".join(map(str, ids[:4])) + (" …" if len(ids) > 4 else ".")
    start = " A start token comes before them, as before every text in training." if facts.before else ""
    made = {"character": "Each character is a token", "word": "Each word is a token"}.get(
        facts.unit, "Frequent words are one token, rare ones are split"
    )
    return Lesson(
        "A prompt becomes tokens",
        "tokens",
        PROMPT,
        quote="The text is converted into token vectors: Once upon a time [12805, 5304, 264, 892]",
        says=[
            Line(f"{made}. The vocabulary has {facts.about['vocabulary']:,} tokens.", "vocabulary"),
            Line(
                "The lecture’s GPT gives these four words the ids 12805, 5304, 264 and 892. This model has "
                f"another vocabulary, so its ids differ: {len(ids)} tokens, {begin}{start}",
                "prompt ids",
                any_text=False,
            ),
        ],
        look=[
            Line(
                f"Continue the text: “{PROMPT}{MORE}” has {facts.count(PROMPT + MORE)} tokens.",
                "longer prompt",
                any_text=False,
            ),
            Line("Type something else: you see its tokens while you type.", "tokens of any text"),
        ],
    )


def _embedding(facts: Facts) -> Lesson:
    added = facts.adds_positions
    quote = "Sequence of integers is mapped to a set of embedding vectors by an embedding matrix."
    look = (
        Line("Click a token: its strips change, and so does their sum.", "strips")
        if added
        else Line(
            "Click another token: its strip changes. The strip does not depend on the position.", "strips"
        )
    )
    return Lesson(
        "Embedding and position",
        "embedding",
        PROMPT,
        quote=f"{quote} Positional encoding is added to the embedding." if added else quote,
        says=[
            Line(
                f"Each id selects one row of the embedding matrix, {facts.about['width']} numbers. From here "
                "on there is one vector per token: the residual stream.",
                "width",
            ),
            Line(
                f"Attention alone ignores order. {POSITIONS.get(facts.position, '')}".strip(), "position kind"
            ),
        ],
        worked=["ψ′(wₜ) = ψ(wₜ) + pₜ"] if added else [],
        look=[look],
    )


def _mask(facts: Facts) -> Lesson:
    return Lesson(
        "Only backwards: the mask",
        "head",
        PROMPT,
        quote="The tokens at a certain position must depend on previous tokens only.",
        says=[
            Line(
                "A language model predicts what comes next. If it could see that, it would have nothing to "
                "learn. So everything to the right of the diagonal is masked."
            )
        ],
        look=[
            Line("Look at the hatched triangle: the first token can only attend to itself.", "causal"),
            Line("Of all heads, this one attends most to the previous token.", "clearest head"),
        ],
        pick={"query": QUERY, "key": 0},
        head="previous",
    )


def _heads(facts: Facts) -> Lesson:
    layers = facts.about["attentions"][0]["layers"]
    return Lesson(
        "Many heads, many layers",
        "heads",
        PROMPT,
        quote="In practice, there are multiple heads running in parallel. … This structure is repeated "
        "many times.",
        says=[
            Line(
                f"Each thumbnail is one of {layers} × {facts.heads} heads, with its own pattern. The tags "
                "are "
                "measured on this text.",
                "head count",
            )
        ],
        look=[
            Line("Sort by entropy: the sharpest heads come first.", "entropy order"),
            Line("A head without a tag has no clear role. Click a head to enlarge it.", "untagged"),
        ],
    )


def _residual(facts: Facts) -> Lesson:
    return Lesson(
        "The residual stream",
        "residual",
        PROMPT,
        quote="This residual stream is then passed through a ‘self attention + FF layer block’.",
        says=[
            Line(
                "Every block adds to the stream. At the end, the vector of the last token predicts what "
                "comes next."
            )
        ],
        look=[
            Line(
                "The bars show how much each sub-layer adds at the chosen token. Each adds something.",
                "shares",
            )
        ],
    )


def _next_token(facts: Facts) -> Lesson:
    return Lesson(
        "The next token",
        "logits",
        PROMPT,
        quote="Maps from embedding space to logits for the token space.",
        says=[
            Line(
                f"The last vector is compared with each of the {facts.about['vocabulary']:,} tokens of the "
                "vocabulary. Softmax turns all these logits into probabilities, not only those shown.",
                "vocabulary",
            )
        ],
        look=[
            Line("Click the last position: which tokens may come next?", "top tokens"),
            Line(
                "Raise the temperature: the most probable token loses, unlikely ones gain. Lower top-p: "
                "unlikely ones are filtered out.",
                "temperature",
            ),
        ],
        # Limited to the last position.
        pick={"position": 10**6},
    )


def _generate(facts: Facts) -> Lesson:
    return Lesson(
        "Generate",
        "generate",
        PROMPT,
        quote="At its simplest, the model’s aim is now to predict the next word in a sequence and do this "
        "repeatedly until the output is complete.",
        says=[
            Line(
                "Choose a token, append it, repeat. The keys and values of earlier tokens are cached, so "
                "each "
                "step processes only one token."
            )
        ],
        look=[
            Line("Click “Next token” and watch the cache grow by one position.", "cache"),
            Line(
                "Click a token that the model would not take: it continues from there.",
                "instead",
            ),
        ],
    )
