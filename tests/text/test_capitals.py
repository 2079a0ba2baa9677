"""Sentences in capitals."""

import pytest

from clearhead.text.capitals import in_capitals, lowered
from clearhead.text.inline import find_parts, take_apart


def core(text):
    return take_apart(text, find_parts(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DO NOT OPEN https://x.example/A NOW.", "Do not open https://x.example/A now."),
        ("MAY I GO?", "May I go?"),
        ("ATTENTION!", "Attention!"),
        ("NASA", "NASA"),
        ("I am Tom.", "I am Tom."),
        ("İKİ KIZ", "İKİ KIZ"),
    ],
)
def test_capitals_become_a_sentence_and_items_stay(text, expected):
    assert lowered(core(text)).text == expected


def test_items_do_not_decide_whether_a_sentence_is_in_capitals():
    assert in_capitals(core("STOP AT https://x.example"))
    assert not in_capitals(core("Stop at https://X.EXAMPLE"))
