"""Pictures of views: SVG with its text as text and a caption, PNG at twice the size."""

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from .test_views import CASES

TEXT = "The dog runs through the big garden."
SVG = "{http://www.w3.org/2000/svg}"


def save(page, kind: str) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    return Path(download.value.path())


def texts(picture: ElementTree.Element) -> list[str]:
    """The texts of a picture, in full where they were shortened."""
    return [
        (one.findtext(f"{SVG}title") or "".join(one.itertext())).strip() for one in picture.iter(f"{SVG}text")
    ]


@pytest.mark.parametrize("model", ["en-de", "writer", "trigrams"])
def test_every_view_can_be_saved_as_a_picture(opened, model):
    selection, views = CASES[model]
    page = opened.go(model=model, view=views[0], **selection)
    for view in views:
        opened.turn(view)
        picture = ElementTree.fromstring(save(page, "SVG").read_text(encoding="utf-8"))
        written = texts(picture)
        assert page.locator(f"[data-view={view}] h2").first.inner_text() in " ".join(written), view
        caption = " ".join(written[-4:])
        assert f"Model {model}: “{selection['text']}”" in caption, (view, caption)


def test_a_png_has_twice_the_size_of_the_svg(opened):
    page = opened.go(view="beam", text=TEXT)
    picture = ElementTree.fromstring(save(page, "SVG").read_text(encoding="utf-8"))
    size = [round(2 * float(picture.attrib[side])) for side in ("width", "height")]
    image = Image.open(io.BytesIO(save(page, "PNG").read_bytes()))
    assert list(image.size) == size
    assert len(image.convert("RGB").getcolors(1 << 24)) > 20


def test_a_matrix_is_saved_with_every_token_and_number_as_text(opened, box):
    explanation = box.explain(TEXT)
    page = opened.go(view="head", text=TEXT, attention="cross", layer=1, head=2)
    picture = ElementTree.fromstring(save(page, "SVG").read_text(encoding="utf-8"))
    written = texts(picture)
    for token in (*explanation.source, *explanation.target):
        # The page marks pieces that continue a word with a dot.
        shown = token.piece.removeprefix("▁")
        assert {shown, f"·{shown}"} & set(written), (token.piece, written)
    weight = float(explanation["decoder.blocks.1.cross_attention.weights"][2, 1, 2])
    assert f"{weight:.2f}".lstrip("0") in written
    assert re.search(r"attention cross, layer 1, head 2", " ".join(written))
    # The cells are an embedded image, so the file needs nothing else.
    images = [one.attrib["href"] for one in picture.iter(f"{SVG}image")]
    assert images
    assert all(href.startswith("data:image/png;base64,") for href in images)


def test_a_long_text_is_saved_in_full(opened):
    selection, _ = CASES["long"]
    page = opened.go(view="tokens", model="long", **selection)
    picture = ElementTree.fromstring(save(page, "SVG").read_text(encoding="utf-8"))
    assert sum(one == "word99" for one in texts(picture)) >= 5


def test_pictures_are_saved_from_a_lesson_a_phone_and_a_file(opened, phone, browser, saved, watched):
    for page in (opened.go("learn", text=TEXT), phone.go(view="softmax", text=TEXT)):
        assert ElementTree.fromstring(save(page, "SVG").read_text(encoding="utf-8")).tag == f"{SVG}svg"
    context = browser.new_context(offline=True)
    page = context.new_page()
    watched(page, saved().as_uri()).go(view="cross")
    assert ElementTree.fromstring(save(page, "SVG").read_text(encoding="utf-8")).tag == f"{SVG}svg"
    context.close()
