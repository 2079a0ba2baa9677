"""Labels in documents, such as the cells of a table, do not become sentences."""

import math

import pytest

import clearhead
from clearhead.decoding import Hypothesis
from clearhead.tasks.translation import documents


@pytest.fixture
def translate(monkeypatch):
    """Translates a document with a model that knows some texts: their translations with probabilities."""

    def search_all(model, tokenizer, sources, options, before=0):
        found = []
        for ids in sources:
            known = texts.get(tokenizer.decode([one for one in ids if one not in tokenizer.special_ids]), {})
            ranked = [hypothesis(tokenizer.encode(text), share) for text, share in known.items()]
            found.append(ranked[: options.nbest])
        return found

    def run(name: str, text: str, known: dict[str, dict[str, float]]) -> str:
        texts.update(known)
        return str(clearhead.load(name).translate_document(text, beam=3))

    texts: dict[str, dict[str, float]] = {}
    monkeypatch.setattr(documents, "search_all", search_all)
    return run


def hypothesis(tokens: list[int], confidence: float) -> Hypothesis:
    return Hypothesis(tokens, 0.0, math.log(confidence) * (len(tokens) + 1), [])


def test_a_cell_becomes_the_best_translation_that_is_no_sentence(translate):
    known = {"Name": {"Mein Name ist.": 0.9, "Bezeichnungen.": 0.2, "Titel!": 0.4}}
    assert translate("en-de", "| Name | 12 |\n|---|---|\n", known) == "| Titel | 12 |\n|---|---|\n"
    assert translate("en-de", "# Name\n", known) == "# Titel\n"


def test_a_label_is_also_read_as_a_sentence_and_in_lower_case(translate):
    known = {"Price": {"Was ist der Preis?": 0.9, "Reis.": 0.2}, "Price.": {"Preise.": 0.5}}
    assert translate("en-de", "# Price\n", known) == "# Preise\n"
    assert translate("en-de", "# Price\n", {"price": {"preis.": 0.8}}) == "# Preis\n"
    # A German noun would become another word in lower case.
    known = {"Preis": {"It is the price.": 0.9}, "Preis.": {"Price.": 0.5}, "preis": {"Praise.": 0.8}}
    assert translate("de-en", "# Preis\n", known) == "# Price\n"


def test_a_label_without_a_shorter_translation_and_a_sentence_stay_as_they_are(translate):
    known = {"Name": {"Mein Name ist.": 0.9}, "Stop!": {"Hör sofort damit auf!": 0.9, "Halt!": 0.8}}
    assert translate("en-de", "# Name\n", known) == "# Mein Name ist\n"
    assert translate("en-de", "Stop!\n", known) == "Hör sofort damit auf!\n"
