"""The lessons of a translator, in the order of the lectures."""

from clearhead.explorer.lessons.attention import order, projections, row_lessons
from clearhead.explorer.lessons.facts import Facts
from clearhead.explorer.lessons.lesson import Lesson, Line


def translator_lessons(facts: Facts) -> list[Lesson]:
    """The tour of a Transformer that translates."""
    text = facts.examples.windows
    query, key = facts.before + 3, facts.before + 1
    pick = {"attention": "encoder", "layer": 0, "head": 0, "query": query, "key": key}
    quote = (
        "Each word of the sentence is a query and we use it to seek an entry that is defined by a key and a "
        "value."
    )
    return [
        _tokens(facts),
        _embedding(facts),
        *([_meanings(facts)] if facts.knows_language else []),
        *row_lessons(facts, text, pick),
        projections(facts, text, {**pick, "key": query}, quote),
        _head(facts),
        _heads(facts),
        _mask(facts),
        _positions(facts),
        _encoder(facts),
        _decoder(facts),
        _cross(facts),
        _training(facts),
        _inference(facts),
        _beam(facts),
    ]


def _tokens(facts: Facts) -> Lesson:
    text = facts.examples.windows
    capitals = text.upper()
    split = facts.splits_words and facts.count(capitals) > facts.count(text)
    how = {
        "word": "Each word is one token; a word outside the vocabulary becomes <unk>.",
        "character": "Each character is one token.",
    }.get(facts.unit, "A frequent word is one token; a rare word is made of several.")
    capital = Line(
        f"Type {capitals} It becomes {facts.count(capitals)} tokens instead of {facts.count(text)}: the "
        "model "
        "has rarely seen these words in capitals.",
        "capitals",
        any_text=False,
    )
    return Lesson(
        "A sentence becomes numbers",
        "tokens",
        text,
        quote="We want to turn words into vectors for computers to process.",
        says=[
            Line(
                f"First the text is split into tokens from a vocabulary of {facts.about['vocabulary']:,}. "
                f"{how} "
                "Each token has a number, its id.",
                "vocabulary",
            )
        ],
        look=[
            Line("Type your own text: you see its tokens while you type.", "tokens of any text"),
            *([capital] if split else []),
        ],
    )


def _embedding(facts: Facts) -> Lesson:
    return Lesson(
        "Words to vectors",
        "embedding",
        facts.examples.windows,
        quote="We want close words in meaning to have a close representation as vectors!",
        says=[
            Line(
                f"Each id selects one row of a large matrix: the token’s embedding, {facts.about['width']} "
                "numbers that were learned in training.",
                "width",
            ),
            Line("The overview shows the whole model. You have now seen its first two boxes."),
        ],
        look=[
            Line("Click another token: its strip changes.", "strips"),
            Line(
                "The square below compares all tokens of the sentence: 1 on the diagonal, where a token "
                "meets "
                "itself.",
                "cosines",
            ),
        ],
        pick={"key": facts.before + 3},
    )


def _meanings(facts: Facts) -> Lesson:
    meanings = facts.examples.meanings
    return Lesson(
        "One word, two meanings",
        "vectors",
        meanings.first,
        quote="Where to classify the word “windows”? Is it closer to words that are related to house or "
        "that are "
        "related to technology?",
        says=[
            Line(
                f"“{meanings.first}” and “{meanings.second}”: the embedding cannot tell the two meanings of "
                f"“{meanings.word}” apart, because it is the same row of the same matrix.",
                "one embedding",
            ),
            Line(
                "Attention adds the context: layer by layer, the two vectors move apart. A vector also "
                "changes "
                "when the word only moves, so the third text is a control: the first meaning at another "
                "position.",
                "apart",
            ),
        ],
        look=[
            Line("The curves start at 1: without context, it is one vector.", "start at 1"),
            Line(
                "Compare the ends: two meanings are further apart than one meaning at two positions.",
                "meanings",
            ),
            Line("The lists show the tokens that are nearest to each vector.", "nearest"),
        ],
    )


def _head(facts: Facts) -> Lesson:
    text, word = facts.examples.cat, facts.examples.repeated
    first, second = (facts.position_of(text, word, n) for n in (0, 1))
    return Lesson(
        "One head at work",
        "head",
        text,
        quote="Self-Attention allows the model to relate words to each other.",
        says=[
            Line(
                "The lecture shows such a matrix for YOUR CAT IS A LOVELY CAT and notes: “all values are "
                "random.” Here they come from a trained head. Each row shows what one token attends to, and "
                "sums to 1.",
                "sums",
            )
        ],
        look=[
            Line(
                "Of all heads of the encoder, this one attends most to the previous token.", "clearest head"
            ),
            Line(
                f"“{word}” occurs twice, at positions {first} and {second}. Compare the two rows: the "
                "same word "
                "attends to different positions.",
                "two rows",
                any_text=False,
            ),
            Line("Switch to lines and point at a token.", "lines"),
        ],
        pick={"attention": "encoder", "query": first, "key": first - 1},
        head="previous",
    )


def _heads(facts: Facts) -> Lesson:
    several = facts.heads > 1
    number = f"{facts.heads} heads" if several else "one head"
    return Lesson(
        "Many heads",
        "heads",
        facts.examples.cat,
        quote="MultiHead(Q, K, V) = Concat(head₁, …, headₕ) Wᴼ",
        says=[
            Line(
                f"One head has one pattern. Each layer of this model has {number}"
                + (", each with matrices of its own; Wᴼ combines their outputs." if several else "."),
                "head count",
            ),
            Line(
                "Some heads have a clear role: they attend to the previous token, to the token itself or to "
                "the first token. The tags are measured on this text.",
                "tags",
            ),
        ],
        look=[
            Line("Sort by entropy: the sharpest heads come first.", "entropy order"),
            Line("A head without a tag has no clear role. Click a head to enlarge it.", "untagged"),
        ],
        pick={"attention": "encoder"},
    )


def _mask(facts: Facts) -> Lesson:
    return Lesson(
        "The mask: no peeking",
        "softmax",
        facts.examples.cat,
        quote="The tokens at a certain position must depend on previous tokens only. We don’t want our "
        "model to "
        "see future tokens.",
        says=[
            Line(
                "The decoder generates from left to right. If it saw the following words in training, it "
                "would "
                "learn to copy them. So their scores are set to −∞ before the softmax, which makes their "
                "weights 0."
            )
        ],
        look=[
            Line(
                "Look at the hatched triangle in matrices 3 and 4. Masked is not the same as small.", "causal"
            ),
            Line("In the table, masked keys have score −∞ and weight 0.", "masked"),
        ],
        pick={"attention": "decoder", "layer": 0, "head": 0, "query": 3, "key": 1},
    )


def _positions(facts: Facts) -> Lesson:
    text, word = facts.examples.cat, facts.examples.repeated
    first, second = (facts.position_of(text, word, n) for n in (0, 1))
    strips = (
        "the token’s strip is the same, the position’s strip and the sum are not."
        if facts.adds_positions
        else "the strip is the same, because the position is not part of it."
    )
    look = [
        Line(
            f"Click “{word}” at positions {first} and {second} in turn: {strips}",
            "two positions",
            any_text=False,
        )
    ]
    if facts.nearby:
        look.append(Line("The last curve shows that nearby positions have similar codes.", "nearby"))
    return Lesson(
        "Positions",
        "embedding",
        text,
        quote="The position of the word may not [be] captured properly.",
        says=[order(facts)],
        look=look,
        pick={"key": first},
    )


def _encoder(facts: Facts) -> Lesson:
    return Lesson(
        "The encoder",
        "residual",
        facts.examples.cat,
        quote="The encoder outputs, for each word, a vector that not only captures its meaning or the "
        "position, "
        "but also its interaction with other words.",
        says=[
            Line(
                "A layer consists of attention and a feed-forward network. Each adds to the residual "
                "stream of "
                f"every token. The same structure repeats in all {facts.about['stacks'][0]['layers']} "
                "layers.",
                "layer count",
            ),
            Line(
                "Attention brings in information from other tokens; the feed-forward network processes each "
                "position on its own."
            ),
        ],
        look=[
            Line(
                "The bars show how much each sub-layer adds at the chosen token. Each adds something.",
                "shares",
            ),
            Line("Click another token: its bars differ.", "other shares"),
        ],
        pick={"attention": "encoder", "key": facts.position_of(facts.examples.cat, facts.examples.repeated)},
    )


def _decoder(facts: Facts) -> Lesson:
    return Lesson(
        "The decoder",
        "head",
        facts.examples.windows,
        quote="We prepend the <SOS> token at the beginning. That’s why the paper says that the decoder "
        "input is "
        "shifted right.",
        says=[
            Line(
                "The decoder reads its output so far, after the start token, and predicts the next token at "
                "every position. Its self-attention is masked; then it attends to the source."
            )
        ],
        look=[Line("Every row ends at its own token: everything to the right is masked.", "causal")],
        pick={"attention": "decoder", "layer": 0, "head": 0, "query": 3, "key": 1},
        head="previous",
    )


def _cross(facts: Facts) -> Lesson:
    source, target = facts.source_name, facts.target_name
    return Lesson(
        "Cross-attention",
        "cross",
        facts.examples.windows,
        quote="On each step of decoding, directly connect to the encoder, and focus on a particular part "
        "of the "
        "source sequence.",
        says=[
            Line(
                f"Queries come from the {target} words, keys and values from the {source} words. The "
                "training "
                "data does not say which word belongs to which, yet some heads find out.",
                "aligners",
            ),
            Line(
                "When the decoder writes a word, it has just read the word before. Some heads look for the "
                "source of the word that is written, others for the word that was read: a badge says which."
            ),
        ],
        look=[
            Line("The list ranks the heads as aligners. The view opens with the best one.", "best aligner"),
            Line(f"Point at the {target} words one by one and follow the curves.", "curves"),
        ],
        pick={"attention": "cross", "query": 0},
        head="aligner",
    )


def _training(facts: Facts) -> Lesson:
    return Lesson(
        "Training: all positions at once",
        "logits",
        facts.examples.windows,
        quote="It all happens in one time step! … Cross Entropy Loss",
        says=[
            Line(
                "In training a reference translation is given. The model predicts its next token at all "
                "positions at once; the loss is the mean of −log p(reference token), and its gradient "
                "updates "
                "every matrix that you have seen."
            ),
            Line("Here the model’s own output stands in for the reference."),
        ],
        worked=["loss at a position = −log p(next token)"],
        look=[
            Line(
                "Click a position: the token that follows is orange. A full bar means a probability of 1, so "
                "its bar is long where the model is sure.",
                "bars",
            ),
            Line("The top row of the logit lens below is the prediction of the whole model.", "lens"),
        ],
        pick={"position": 1},
    )


def _inference(facts: Facts) -> Lesson:
    return Lesson(
        "Inference: one token at a time",
        "generate",
        facts.examples.windows,
        quote="We select a token from the vocabulary corresponding to the position of the token with the "
        "maximum "
        "value. … Append the previously output word to the decoder input.",
        says=[
            Line(
                "At inference the model has only its own output to continue. It generates one token, "
                "reads it, "
                "and generates the next, until it generates the end token."
            )
        ],
        look=[
            Line("Click “Next token” until the end.", "ends", any_text=False),
            Line("Take another token at some step: the model continues from there.", "instead"),
        ],
    )


def _beam(facts: Facts) -> Lesson:
    return Lesson(
        "Beam search",
        "beam",
        facts.examples.computer,
        quote="Rather than focusing only on the next word in a sequence, it looks at the probability of a "
        "larger "
        "set of tokens as a whole.",
        says=[
            Line(
                "The best first word need not lead to the best sentence. Beam search keeps "
                f"{facts.about['beam']} hypotheses at every step and drops those that fall behind.",
                "beam size",
            )
        ],
        look=[
            Line("The orange path is the output.", "orange path"),
            Line("Click a dropped branch: the page says why it was dropped.", "dropped"),
            Line("Force a path, and the search continues from there.", "forced"),
        ],
    )
