"""Vocabularies of whole words."""

from pathlib import Path

import pytest

from clearhead.errors import ModelError, TextError
from clearhead.text.vocabulary import Vocabulary, split_words


def test_words_are_letters_in_any_script_with_apostrophes_inside():
    assert split_words("Don't worry: 3 'Äpfel' _kosten_ 2€!", lower=True) == [
        "don't",
        "worry",
        "äpfel",
        "kosten",
    ]
    assert split_words("Привет, Мир_1", lower=False) == ["Привет", "Мир"]


def test_html_tags_and_letters_after_digits_are_no_words():
    assert split_words("so<br /><br />the 5th of the 1990s</i>", lower=True) == ["so", "the", "of", "the"]


def test_a_word_is_found_as_written_or_else_in_lower_case():
    vocabulary = Vocabulary(["the", "Paris", "paris"])
    assert [vocabulary.find(word) for word in ("The", "Paris", "PARIS", "rome")] == [0, 1, 2, None]
    assert vocabulary.encode("The Rome of Paris.") == [0, 1]
    assert "paris" in vocabulary
    assert "rome" not in vocabulary


def test_an_unknown_word_is_answered_with_the_closest_spelling():
    vocabulary = Vocabulary(["window", "windows", "door"])
    with pytest.raises(TextError, match=r"^Windws: not among the 3 words .*\(did you mean windows\?\)$"):
        vocabulary.id("Windws")
    with pytest.raises(
        TextError, match=r"^xyzzy: not among the 3 words that have vectors; try another word$"
    ):
        vocabulary.id("xyzzy")


def test_a_saved_vocabulary_is_loaded_again(tmp_path: Path):
    vocabulary = Vocabulary(["der", "Käse"], [7, 2], lower=False)
    vocabulary.save(tmp_path / Vocabulary.FILE)
    loaded = Vocabulary.load(tmp_path / Vocabulary.FILE)
    assert (loaded.words, loaded.counts, loaded.lower) == (["der", "Käse"], [7, 2], False)
    assert loaded.fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"words": ["a", "a"], "counts": [], "lower": true}', "'words' are not distinct texts"),
        ('{"words": ["a"], "counts": [1, 2], "lower": true}', "'counts' do not fit the words"),
        ('{"words": "a", "counts": [], "lower": true}', "has no valid 'words'"),
        ('{"words": ["a"]', "cannot be read (Expecting"),
        ("[1]", "has no valid 'words'"),
    ],
)
def test_a_damaged_file_is_one_line(content: str, problem: str, tmp_path: Path):
    path = tmp_path / Vocabulary.FILE
    path.write_text(content)
    with pytest.raises(ModelError) as error:
        Vocabulary.load(path)
    assert str(error.value).startswith(f"{path}: {problem}")
    assert "\n" not in str(error.value)
