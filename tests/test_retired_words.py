"""The check for retired words finds them in prose and names, and leaves good English alone."""

import pytest
import retired_words


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("the slopes of all weights", "slopes"),
        ("def their_place(self):", "place"),
        ("class GraphPlace:", "Place"),
        ("wishes = Wishes()", "wishes"),
        ("as it was told", "told"),
        ("tokenizer.signs.begin", "signs"),
        ('--set model.attention.key_heads=4"', "key_heads"),
        ("attention(longest=5)", "longest"),
        ("config.longest", "longest"),
        ("nobody looks", "nobody"),
    ],
)
def test_retired_words_are_found(line, word):
    assert next(found for found, _ in retired_words.found(line)) == word


@pytest.mark.parametrize(
    "line",
    [
        "the ALiBi slopes (Press et al. 2022)",
        "replaces the file in place",
        "this takes place once",
        "a placeholder",
        "rounded to two decimal places",
        "torch.sign(x)",
        "a design with assigned numbers",
        "the longest sentence first",
        "they work together",
        "the dropped <br>→ He told me.",
    ],
)
def test_good_english_is_left_alone(line):
    assert list(retired_words.found(line)) == []
