"""Toy tasks have the answers their names promise."""

import itertools

import pytest
import torch

from clearhead.data.toys import FIRST, toy_batch, toy_batches, toy_pairs
from clearhead.errors import SettingsError

ANSWERS = {"copy": list, "reverse": lambda source: source[::-1], "sort": sorted}


@pytest.mark.parametrize("task", ANSWERS)
def test_the_target_is_what_the_task_says(task):
    pairs = toy_pairs(task, 200, seed=1, vocabulary=12, max_length=6)
    assert all(target == ANSWERS[task](source) for source, target in pairs)
    assert {len(source) for source, _ in pairs} == set(range(1, 7))
    assert {symbol for source, _ in pairs for symbol in source} == set(range(FIRST, 12))


def test_the_seed_decides_and_batches_go_on_afresh():
    assert torch.equal(toy_batch("copy", 8, seed=1).source, toy_batch("copy", 8, seed=1).source)
    first, second = itertools.islice(toy_batches("reverse", 8, seed=1), 2)
    assert len(first) == 8
    assert first.source.tolist() != second.source.tolist()
    assert torch.equal(first.source, next(toy_batches("reverse", 8, seed=1)).source)


def test_a_vocabulary_without_symbols_is_refused():
    with pytest.raises(SettingsError, match="vocabulary 4 has no room for symbols"):
        toy_pairs("copy", 1, seed=0, vocabulary=4)
