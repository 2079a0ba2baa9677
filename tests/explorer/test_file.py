"""A trace as one HTML file: it holds the numbers of the explanation and makes no requests."""

import base64
import json
import re

import numpy as np
import pytest

from clearhead.errors import SettingsError
from clearhead.explorer.standalone import standalone_page


def inlined(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="clearhead-trace">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def test_a_file_holds_the_numbers_of_the_explanation(translator):
    explanation = translator.explain("three one four one", beam=3)
    data = inlined(standalone_page(explanation))
    assert data["manifest"]["output"]["text"] == explanation.output
    assert data["beam"]["beam"] == data["manifest"]["model"]["beam"] == 3
    for entry in data["manifest"]["tensors"]:
        saved = data["tensors"][entry["name"]]
        numbers = np.frombuffer(base64.b64decode(saved["data"]), "<f4").reshape(saved["shape"])
        first = numbers[0] if "*" in entry["name"] else numbers
        np.testing.assert_array_equal(first, explanation[entry["name"].replace("*", "0")].numpy())


def test_a_gpt_can_be_saved_as_a_file(language):
    data = inlined(standalone_page(language.explain("to be", tokens=3)))
    assert data["manifest"]["kind"] == "gpt"
    assert data["beam"] is None
    assert "beam" not in data["manifest"]["parts"]


def test_a_file_without_its_tensors_says_how_to_capture_them(translator):
    explanation = translator.explain("three one", names=["*.weights", "*.stream", "*.added"])
    with pytest.raises(SettingsError, match=r"logits: was not captured; explain with names=\['logits', …\]"):
        standalone_page(explanation)


def test_a_file_makes_no_requests(translator):
    page = standalone_page(translator.explain("three one"))
    for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", page):
        assert not re.search(r"\b(?:src|href)=\"(?!data:)", tag), tag
    assert "default-src 'none'" in page
    assert page.index("charset") < 1024


def test_markup_in_a_text_stays_text_in_a_file(translator):
    text = "<script>alert</script>"
    page = standalone_page(translator.explain(text))
    assert "<script>alert" not in page
    assert inlined(page)["manifest"]["text"] == text


@pytest.mark.parametrize(
    ("bound", "dtype", "kept"), [(10**6, "f32", True), (30_000, "f16", True), (1000, "f16", False)]
)
def test_large_tensors_are_stored_as_f16_or_left_out(translator, monkeypatch, bound, dtype, kept):
    monkeypatch.setattr("clearhead.explorer.standalone.EXACT_BYTES", bound)
    explanation = translator.explain("three one four one two two two")
    data = inlined(standalone_page(explanation))
    assert {saved["dtype"] for saved in data["tensors"].values()} == {dtype}
    assert ("encoder.blocks.*.attention.scores" in data["tensors"]) == kept
    assert set(data["tensors"]) == {entry["name"] for entry in data["manifest"]["tensors"]}
