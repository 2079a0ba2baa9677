"""Everyday phrases: the lists, what counts as right, and how many the built-in translator gets right."""

import lzma

import pytest
from phrases import Phrase, expand, plain, read_phrases, translate_phrases

import clearhead
from clearhead.data.datasets import SHIPPED, shipped_file
from clearhead.tasks.translation.directions import Direction
from clearhead.text.normalize import normalize

RIGHT = {"en-de": 197, "de-en": 197, "en-fr": 198, "fr-en": 193}
"""Of 200, by the model in the package."""
DIRECTIONS = [Direction(*name.split("-")) for name in RIGHT]


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
def test_a_list_has_200_phrases_whose_translations_are_questions_if_they_are(direction: Direction):
    phrases = read_phrases(direction)
    assert len({plain(source) for source, _ in phrases}) == 200
    for source, accepted in phrases:
        assert source == normalize(source)
        for text in expand(accepted):
            assert text[0].isupper()
            assert text[-1] in ".?!"
            assert not set("()|/") & set(text)
            assert (text[-1] == "?") == (source[-1] == "?"), text


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
def test_no_phrase_of_the_test_was_written_for_training(direction: Direction):
    corpus = SHIPPED[f"phrases-en-{direction.target if direction.source == 'en' else direction.source}"]
    side = corpus.languages.index(direction.source)
    with lzma.open(shipped_file(corpus.name), "rt", encoding="utf-8") as lines:
        written = {plain(line.rstrip("\n").split("\t")[side]).lower() for line in lines}
    assert len(written) > 200
    assert not written & {plain(source).lower() for source, _ in read_phrases(direction)}


def test_patterns_expand_to_every_choice():
    assert list(expand("Wo (bist du|sind Sie) (denn|)? / Wo?")) == [
        "Wo bist du denn?",
        "Wo bist du ?",
        "Wo sind Sie denn?",
        "Wo sind Sie ?",
        "Wo?",
    ]


@pytest.mark.parametrize(
    ("translation", "right"),
    [
        ("Ça va bien ?", True),
        ("Ça va bien?", True),
        ("ça va bien ?", False),
        ("Ça va bien !", False),
        ("Ça va mal ?", False),
    ],
)
def test_spacing_does_not_count_but_case_and_words_do(translation: str, right: bool):
    assert Phrase("How are you?", "Ça va (bien|)?", translation).right is right


def test_a_final_full_stop_may_be_an_exclamation_mark():
    assert Phrase("Good morning.", "Guten Morgen.", "Guten Morgen!").right


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
def test_the_built_in_translator_knows_everyday_phrases(direction: Direction):
    phrases = translate_phrases(clearhead.load("en-de-fr"), direction)
    assert sum(phrase.right for phrase in phrases) >= RIGHT[str(direction)]
