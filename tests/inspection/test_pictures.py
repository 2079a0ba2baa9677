"""Pictures hold tokens as text, hatch masked cells, and describe themselves in words."""

import io
import re
import struct
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread
from matplotlib.text import Text

from clearhead.decoding.tree import Node
from clearhead.errors import SettingsError
from clearhead.inspection.alignment import Aligner, WordAlignment, agreements
from clearhead.inspection.pictures.arithmetic import Arithmetic, arithmetic_picture
from clearhead.inspection.pictures.atlas import atlas_picture
from clearhead.inspection.pictures.beam import beam_picture
from clearhead.inspection.pictures.context import AttentionView, Subject
from clearhead.inspection.pictures.cross import cross_picture
from clearhead.inspection.pictures.head import head_picture
from clearhead.inspection.pictures.lens import lens_picture
from clearhead.inspection.pictures.neighbours import Neighbours, neighbours_picture
from clearhead.inspection.pictures.picture import readable
from clearhead.inspection.pictures.positions import positions_picture
from clearhead.inspection.pictures.residual import residual_picture
from clearhead.inspection.summaries import ResidualContribution, head_roles, logit_lens
from clearhead.inspection.vectors import position_similarity
from clearhead.layers.positions import make_position, make_relative

SUBJECT = Subject("en-de", "The dog runs.", "Der Hund läuft.")
TOKENS = ["<s>", "▁The", "▁dog", "▁$runs$", "."]


def attention(
    tokens: list[str] = TOKENS, heads: int = 2, layer: int = 0, causal: bool = False
) -> AttentionView:
    torch.manual_seed(layer)
    scores = torch.randn(heads, len(tokens), len(tokens))
    masked = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1) if causal else None
    weights = (scores if masked is None else scores.masked_fill(masked, float("-inf"))).softmax(-1)
    name = f"decoder.blocks.{layer}.attention"
    return AttentionView(name, weights, tokens, tokens, masked, head_roles(weights), layer)


def texts(svg: bytes) -> list[str]:
    """The lines of text in an SVG."""
    root = ElementTree.fromstring(svg)
    return ["".join(one.itertext()).strip() for one in root.iter("{http://www.w3.org/2000/svg}text")]


def horizontal_overlaps(picture) -> list[tuple[str, str]]:
    """Pairs of texts that overprint each other; slanted ones have boxes that say nothing."""
    with picture._drawable("png"):
        canvas = FigureCanvasAgg(picture.figure)
        canvas.draw()
        drawn = [one for one in picture.figure.findobj(Text) if one.get_visible() and one.get_text().strip()]
        boxes = [
            (one.get_text(), one.get_window_extent(canvas.get_renderer()))
            for one in drawn
            if one.get_rotation() in (0, 90)
        ]
    found = []
    for (first, one), (second, other) in combinations(boxes, 2):
        wide = min(one.x1, other.x1) - max(one.x0, other.x0)
        high = min(one.y1, other.y1) - max(one.y0, other.y0)
        if wide > 2 and high > 2:
            found.append((first, second))
    return found


def numbers(svg: bytes) -> list[str]:
    return [text for text in texts(svg) if re.fullmatch(r"1?\.\d\d|1\.00", text)]


def test_a_vector_picture_has_every_token_as_text_without_formulas():
    written = texts(head_picture(SUBJECT, attention(), 1).content("svg"))
    for token in TOKENS:
        assert written.count(token) == 4  # on both sides, in the curves and in the matrix


def test_only_small_matrices_have_numbers():
    small, large = attention(["a"] * 12), attention(["a"] * 13)
    assert len(numbers(head_picture(SUBJECT, small, 0).content("svg"))) == 144
    assert not numbers(head_picture(SUBJECT, large, 0).content("svg"))


def test_the_numbers_in_the_cells_are_the_weights():
    one = attention()
    written = numbers(head_picture(SUBJECT, one, 0).content("svg"))
    expected = [f"{weight:.2f}".removeprefix("0") for row in one.weights[0].tolist() for weight in row]
    assert sorted(written) == sorted(expected)


def test_masked_cells_are_hatched_and_have_no_number():
    open_, causal = (
        head_picture(SUBJECT, attention(causal=causal), 0).content("svg") for causal in (False, True)
    )
    assert b"<pattern" not in open_
    assert b"<pattern" in causal
    assert len(numbers(causal)) == 15
    assert "masked: comes later" in texts(causal)


def test_padding_and_future_keys_have_different_hatches():
    one = attention(causal=True)
    masked = one.masked.clone()
    masked[:, 1] = True
    both = AttentionView(one.name, one.weights, one.queries, one.keys, masked)
    written = texts(head_picture(SUBJECT, both, 0).content("svg"))
    assert {"masked: comes later", "masked: padding or outside the window"} <= set(written)


def test_the_alt_text_names_the_strongest_key_of_each_query():
    one = attention()
    picture = head_picture(SUBJECT, one, 1)
    for query, row in zip(TOKENS, one.weights[1], strict=True):
        assert f"{query} to {TOKENS[int(row.argmax())]} ({float(row.max()):.2f})" in picture.alt
    for part in ("en-de", "The dog runs.", "decoder.blocks.0.attention", "head 1", "√α"):
        assert part in picture.caption
    assert picture.alt.split()[0].encode() in picture.content("svg")
    assert picture.alt.encode("latin-1", "ignore")[:20] in picture.content("png").replace(b"\0", b"")


def test_text_is_escaped():
    tokens = ["<script>alert(1)</script>", "&amp;", '"', "\\frac{$x$}"]
    picture = head_picture(Subject("<b>m</b>", tokens[0]), attention(tokens), 0)
    svg = picture.content("svg")
    assert b"<script" not in svg
    assert "&amp;" in texts(svg)
    assert "<script" not in picture._repr_html_()


@pytest.mark.parametrize("tokens", [["中文", "😀", "مرحبا", "שלום"], ["a" * 300, "b"], ["only"]])
@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_any_token_can_be_drawn(tokens, kind):
    """A warning about a missing glyph would fail the test."""
    picture = head_picture(Subject("m", " ".join(tokens)), attention(tokens), 0)
    content = picture.content(kind)
    assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "svg" and len(tokens) == 4:
        assert set(tokens) <= set(texts(content))


def test_a_character_without_a_glyph_is_drawn_as_its_code_point():
    pixels = [
        imread(io.BytesIO(head_picture(Subject("m", "x"), attention([token, "b"]), 0).content("png")))
        for token in ("\ue123", "U+E123", "\ue123\ue124", "U+E123…")
    ]
    assert np.array_equal(pixels[0], pixels[1])
    assert np.array_equal(pixels[2], pixels[3])


def test_a_caption_with_missing_glyphs_stays_within_the_picture():
    text = "a\ue123" * 30
    picture = head_picture(Subject("m", text), attention(), 0)
    with picture._drawable("png"):
        lines = picture.figure.get_supxlabel().splitlines()
        assert readable(text) in "".join(lines).replace(" ", "")
        assert max(map(len, lines)) <= picture.figure.get_size_inches()[0] * 17
    assert text in picture.figure.get_supxlabel().replace("\n", "")


def test_numbers_along_the_axes_are_drawn_in_every_format():
    table = position_similarity(make_position("learned", 16, 32), make_relative("learned", 4, 8, 32), 32, 16)
    picture = positions_picture("m", table)
    for kind in ("svg", "png"):
        with picture._drawable(kind):
            FigureCanvasAgg(picture.figure).draw()
            panels = picture.figure.axes[:4]
            down, across = (
                [[label.get_text() for label in labels(axes)] for axes in panels]
                for labels in (Axes.get_yticklabels, Axes.get_xticklabels)
            )
        assert "10" in down[0]
        assert "10" in down[2]
        assert all("10" in labels for labels in across)
        assert any("." in label for label in down[3])


def test_the_residual_stream_has_numbers_along_its_axes():
    values = torch.tensor([0.2, 0.4])
    sublayers = [
        ResidualContribution(f"decoder.blocks.{layer}.attention", layer, values * 100, values * 100, values)
        for layer in range(2)
    ]
    picture = residual_picture(SUBJECT, "decoder", sublayers)
    for kind in ("svg", "png"):
        with picture._drawable(kind):
            FigureCanvasAgg(picture.figure).draw()
            above, below = (
                [label.get_text() for label in axes.get_yticklabels()] for axes in picture.figure.axes
            )
        assert 0.2 in map(float, above)
        assert 20 in map(float, below)


def test_drawing_is_reproducible():
    for kind in ("svg", "pdf", "png"):
        assert head_picture(SUBJECT, attention(), 0).content(kind) == head_picture(
            SUBJECT, attention(), 0
        ).content(kind)


def test_a_picture_is_saved_by_its_ending_and_unknown_endings_are_errors(tmp_path):
    picture = head_picture(SUBJECT, attention(), 0)
    assert picture.save(tmp_path / "x.PNG").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(SettingsError, match=r"x\.gif: not a picture; use \.png, \.svg, \.pdf"):
        picture.save(tmp_path / "x.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["x.PNG"]


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (3, 4), (24, 1)])
def test_an_atlas_has_all_heads_of_all_layers(layers, heads):
    picture = atlas_picture(SUBJECT, [attention(heads=heads, layer=layer) for layer in range(layers)])
    written = texts(picture.content("svg"))
    assert sum(bool(re.fullmatch(r"head \d", text)) for text in written) == layers * heads
    assert sum(text.startswith("layer ") for text in written) == layers
    assert f"{layers * heads} heads" in picture.alt


@pytest.mark.parametrize(("layers", "heads", "turned"), [(6, 4, True), (3, 4, False), (24, 2, False)])
def test_an_atlas_has_tokens_and_the_orientation_of_the_page(layers, heads, turned):
    picture = atlas_picture(SUBJECT, [attention(heads=heads, layer=layer) for layer in range(layers)])
    written = texts(picture.content("svg"))
    rows, columns = (heads, layers) if turned else (layers, heads)
    assert all(written.count(token) == rows + columns for token in TOKENS)
    assert ("layers across, heads down" in picture.caption) == turned


def test_an_atlas_of_a_long_text_leaves_out_tokens_that_would_overlap():
    many = [f"t{number}" for number in range(60)]
    picture = atlas_picture(SUBJECT, [attention(many, heads=2, layer=layer) for layer in range(2)])
    assert horizontal_overlaps(picture) == []
    assert "t0" in texts(picture.content("svg"))


def test_many_tokens_are_drawn_as_a_matrix_only():
    picture = head_picture(SUBJECT, attention([f"t{number}" for number in range(200)], heads=1), 0)
    width, height = struct.unpack(">II", picture.content("png")[16:24])
    assert max(width, height) < 3000
    assert "and 192 more" in picture.alt


def test_cross_attention_shows_links_between_words():
    merged = torch.tensor([[0.9, 0.05], [0.02, 0.9]])
    aligner = Aligner(0, 1, True, 0.93)
    words = WordAlignment(
        "decoder.blocks.0.cross_attention",
        aligner,
        ["the", "dog"],
        ["le", "chien"],
        merged,
        agreements(merged),
    )
    picture = cross_picture(SUBJECT, words)
    assert "le – the, chien – dog" in picture.alt
    assert "agreement 0.93" in picture.alt
    assert "where the word is the decoder's input" in picture.caption
    assert texts(picture.content("svg")).count("chien") == 2


@pytest.mark.parametrize("words", [["Hi"], ["Hi", "."], ["I", "am", "tired", "."]])
def test_labels_of_a_short_text_do_not_overlap(words):
    merged = torch.eye(len(words)) * 0.9
    path = "decoder.blocks.2.cross_attention"
    aligned = WordAlignment(path, Aligner(2, 0, False, 0.9), words, words, merged, agreements(merged))
    assert horizontal_overlaps(cross_picture(SUBJECT, aligned)) == []
    assert horizontal_overlaps(head_picture(SUBJECT, attention(words), 0)) == []


def arithmetic(keys: int, scores: torch.Tensor | None = None) -> Arithmetic:
    torch.manual_seed(0)
    products = torch.randn(keys) * 4
    scores = products / 8 if scores is None else scores
    masked = scores.clone()
    masked[-1] = float("-inf")
    names = [f"k{number}" for number in range(keys)]
    return Arithmetic(
        "decoder.blocks.0.attention", 0, "q", names, scores, masked, masked.softmax(-1), products, 1 / 8
    )


def test_the_steps_of_a_row_lead_from_products_to_weights():
    row = arithmetic(5)
    written = texts(arithmetic_picture(SUBJECT, row).content("svg"))
    for key in range(5):
        assert f"{row.products[key]:.2f}" in written
        assert f"{row.scores[key]:.2f}" in written
        assert f"{row.weights[key]:.4f}" in written
    assert "÷ 8 = score" in written
    assert written.count("masked") == 1
    total = float(row.masked.exp().sum())
    assert f"÷ {total:.4g} = weight" in written


def test_a_long_row_sums_up_the_keys_that_have_no_column():
    row = arithmetic(40)
    written = texts(arithmetic_picture(SUBJECT, row).content("svg"))
    rest = float(row.weights.sort(descending=True).values[12:].sum())
    assert "28 others" in written
    assert f"{rest:.4f}" in written


def test_large_scores_are_shifted_before_the_exponential():
    row = arithmetic(4, torch.tensor([200.0, 199.0, 0.0, 0.0]))
    assert row.exponentials.isfinite().all()
    torch.testing.assert_close(row.exponentials / row.exponentials.sum(), row.weights)
    assert any(
        text.startswith("e^(score − 200.0)")
        for text in texts(arithmetic_picture(SUBJECT, row).content("svg"))
    )


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary", "alibi", "order", "fraction"])
def test_every_kind_of_position_has_a_picture(kind):
    table = position_similarity(make_position(kind, 16, 32), make_relative(kind, 4, 8, 32), 32, 16)
    assert table is not None
    assert table.rows.shape[0] == 32
    assert table.similarity.shape == (32, 32)
    picture = positions_picture("m", table)
    assert kind in picture.alt
    assert picture.content("svg")


def test_a_model_without_positions_has_no_picture_of_them():
    table = position_similarity(make_position("none", 8, 8), make_relative("none", 2, 4, 8), 8, 8)
    with pytest.raises(SettingsError, match="m: the model has no positions"):
        positions_picture("m", table)


def test_neighbours_are_drawn_with_their_cosines():
    picture = neighbours_picture(SUBJECT, [Neighbours("▁dog", [("▁dogs", 0.71), ("▁Hund", 0.5)])])
    assert "▁dog: ▁dogs 0.71, ▁Hund 0.50" in picture.alt
    assert {"▁dog", "▁dogs", "▁Hund", "0.71"} <= set(texts(picture.content("svg")))


def test_a_beam_tree_shows_kept_nodes_and_says_why_others_were_dropped():
    nodes = [
        Node(0, None, 0, 5, -0.1, -0.1, -0.1, "kept", best=True),
        Node(0, None, 0, 6, -2.0, -2.0, -2.0, "kept"),
        Node(0, 0, 1, 1, -0.3, -0.4, -0.3, "finished", best=True),
        *(
            Node(0, 1, 1, 7 + one, -3.0, -5.0, -3.0 - one, "dropped", reason="better ones are open")
            for one in range(5)
        ),
    ]
    pieces = ["a", "b", "</s>", *(f"c{one}" for one in range(5))]
    picture = beam_picture(SUBJECT, nodes, pieces, dropped=2)
    written = set(texts(picture.content("svg")))
    assert {"a", "b", "</s>", "c0", "c1"} <= written
    assert not {"c2", "c3", "c4"} & written
    assert "3 dropped hypotheses with lower scores are not drawn" in picture.caption
    assert "5 because better ones are open" in picture.caption
    assert "The best path is: a </s>." in picture.alt


def test_the_lens_says_since_when_a_token_is_predicted():
    logits = torch.eye(4)
    streams = {"embedding": logits[[0, 1]], "layer 0": logits[[2, 1]], "layer 1": logits[[2, 3]]}
    lens = logit_lens(streams, lambda x: 10 * x, [2, None])
    assert lens.ids[:, :, 0].tolist() == [[0, 1], [2, 1], [2, 3]]
    picture = lens_picture(SUBJECT, lens, ["x", "y"], ["t2", ""], lambda one: f"t{one}")
    assert "x: t2 from layer 0 on, y: t3 from layer 1 on" in picture.alt
    torch.testing.assert_close(lens.next_probabilities[:, 0], (10 * logits).softmax(-1)[[0, 2, 2], 2])
    assert lens.next_probabilities[:, 1].isnan().all()
