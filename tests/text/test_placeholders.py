"""What a translation lacks of the numbers in its source."""

import pytest

from clearhead.text.inline import find_parts
from clearhead.text.placeholders import Written


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("À 7 h 30 et 15h30.", "At 7:30 and 15:30.", []),
        ("À 7 h 30.", "At 7 h 30.", []),
        ("De 9 h à 19\u202fh.", "From 9 h to 19.", ["19\u202fh"]),
        ("À 7 h 30.", "At 17 h 30.", ["7 h 30"]),
        ("At 7:30 and 15:30.", "À 7 h 30 et 15:30.", ["7:30"]),
        ("À 7 h 30.", "At 7:15.", ["7 h 30"]),
        ("À 7 h 30 et 7 h 30.", "At 7:30 and 17:30.", ["7 h 30"]),
        ("In 1990 I had 3 dogs and 3 cats.", "1990: 3 Hunde, drei Katzen.", ["3"]),
        ("I had 3 dogs.", "Ich hatte 13 Hunde.", ["3"]),
        ("It is 7:30.", "Es ist 17:30.", ["7:30"]),
    ],
)
def test_numbers_are_kept_and_french_times_may_be_written_with_a_colon(source, target, missing):
    written = Written(source, (), tuple(find_parts(source)))
    assert [part.text for part in written.missing(target)] == missing
