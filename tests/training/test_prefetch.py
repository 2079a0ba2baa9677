"""Prefetched batches and their positions are those of the feed."""

import time
from itertools import islice

import pytest

from clearhead.errors import TrainingError
from clearhead.training import Feed, Prefetcher


def numbers(number, skip):
    return iter(range(100 * number + skip, 100 * number + 7))


def test_the_batches_are_those_of_the_feed_prepared():
    ahead = Prefetcher(Feed(numbers), lambda number: -number)
    assert list(islice(ahead, 40)) == [-number for number in islice(Feed(numbers), 40)]
    ahead.close()


def test_the_position_follows_the_last_batch_yielded():
    ahead, feed = Prefetcher(Feed(numbers), abs), Feed(numbers)
    assert ahead.position == feed.position
    for _ in range(20):
        assert next(ahead) == next(feed)
        assert ahead.position == feed.position
    ahead.close()


def test_an_error_in_the_background_is_raised_where_batches_are_read():
    ahead = Prefetcher(Feed(lambda number, skip: iter([])), abs)
    for _ in range(2):
        with pytest.raises(TrainingError, match="epoch 0: no batches"):
            next(ahead)


def test_no_batch_is_prepared_after_close():
    begun, ended = [], []

    def prepare(number):
        begun.append(number)
        time.sleep(0.02)
        ended.append(number)
        return number

    ahead = Prefetcher(Feed(numbers), prepare)
    next(ahead)
    ahead.close()
    assert begun == ended
    time.sleep(0.05)
    assert begun == ended
