"""A feed never ends, and continues from its position."""

from itertools import islice

import pytest

from clearhead.errors import TrainingError
from clearhead.training import Feed


def letters(number, skip):
    return iter([f"{number}{letter}" for letter in "abc"][skip:])


def test_epochs_follow_each_other():
    assert list(islice(Feed(letters), 7)) == ["0a", "0b", "0c", "1a", "1b", "1c", "2a"]


def test_a_feed_started_at_any_position_yields_the_same_batches():
    expected = list(islice(Feed(letters), 12))
    feed = Feed(letters)
    for given in range(9):
        assert list(islice(Feed(letters, **feed.position), 3)) == expected[given : given + 3]
        next(feed)


def test_a_position_counts_the_batches_of_all_ranks():
    feed = Feed(lambda number, skip: letters(number, skip // 2), ranks=2)
    assert [next(feed), next(feed)] == ["0a", "0b"]
    assert feed.position == {"number": 0, "consumed": 4}
    assert next(Feed(lambda number, skip: letters(number, skip // 2), **feed.position)) == "0c"


def test_an_epoch_without_batches_is_an_error():
    with pytest.raises(TrainingError, match="epoch 0: no batches"):
        next(Feed(lambda number, skip: iter([])))
