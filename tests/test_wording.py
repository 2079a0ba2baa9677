"""Numbers stand with the right form of their noun."""

import re
from pathlib import Path

import pytest

import clearhead
from clearhead.data.cleaning import Tally
from clearhead.wording import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "pair", "0 pairs"),
        (1, "pair", "1 pair"),
        (2, "pair", "2 pairs"),
        (29000, "token store", "29,000 token stores"),
        (1, "batch", "1 batch"),
        (4, "batch", "4 batches"),
        (3, "class", "3 classes"),
        (3, "entry", "3 entries"),
        (2, "key", "2 keys"),
        (2, "MB", "2 MB"),
    ],
)
def test_one_is_singular_and_all_others_are_plural(number, noun, text):
    assert counted(number, noun) == text


def test_a_tally_of_one_pair_says_1_pair():
    assert str(Tally(kept=1)) == "1 pair read, 1 kept"


def test_no_other_code_inflects_nouns():
    own = re.compile(r"""\{'e?s' (\*|if )""")
    package = Path(clearhead.__file__).parent
    sources = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert [str(path) for path, text in sources.items() if own.search(text)] == []
