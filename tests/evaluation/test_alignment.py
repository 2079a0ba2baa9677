"""The alignment error rate, and the Hansards."""

import pytest
from hansards import HANSARDS, read_hansards

from clearhead.errors import DataError
from clearhead.evaluation.alignment import AlignedPair, alignment_score

PAIR = AlignedPair(
    ("the", "dog"), ("le", "chien"), frozenset({(1, 1)}), possible=frozenset({(0, 0), (1, 1), (0, 1)})
)


def test_gold_links_have_no_error():
    assert alignment_score([{(1, 1)}], [PAIR]).error_rate == 0
    assert alignment_score([{(1, 1), (0, 0), (0, 1)}], [PAIR]).error_rate == 0


def test_wrong_and_missing_links_count_as_in_och_and_ney():
    """One of two links is possible, and the sure one is missing: 1 - (0 + 1) / (2 + 1)."""
    score = alignment_score([{(1, 0), (0, 1)}], [PAIR])
    assert score.error_rate == pytest.approx(2 / 3)
    assert (score.precision, score.recall, score.links) == (0.5, 0.0, 2)
    assert str(score) == "AER 0.667 (precision 0.500, recall 0.000)"


def test_different_numbers_of_sentences_are_refused():
    with pytest.raises(DataError, match="line counts differ: 2 found, 1 gold"):
        alignment_score([set(), set()], [PAIR])


def test_the_hansards_have_the_published_numbers_of_links(measuring_data):
    """The counts are those of the shared task's own description."""
    pairs = read_hansards(measuring_data / HANSARDS)
    assert len(pairs) == 447
    assert sum(len(pair.sure) for pair in pairs) == 4038
    assert sum(len(pair.possible) for pair in pairs) == 4038 + 13400
    for pair in pairs:
        for source, target in pair.possible:
            assert pair.source[source]
            assert pair.target[target]


def test_an_unreadable_archive_is_reported(tmp_path):
    (tmp_path / "gold.tar.xz").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"gold\.tar\.xz: test\.e of the Hansards cannot be read"):
        read_hansards(tmp_path / "gold.tar.xz")
