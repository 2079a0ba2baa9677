"""Toy tasks have the targets that their names promise."""

import itertools

import pytest
import torch

from clearhead.errors import SettingsError

from .toys import FIRST_SYMBOL, toy_batch, toy_batches, toy_pairs

TARGETS = {"copy": list, "reverse": lambda source: source[::-1], "sort": sorted}


@pytest.mark.parametrize("task", TARGETS)
def test_the_target_is_right(task):
    pairs = toy_pairs(task, 200, seed=1, vocabulary=12, max_length=6)
    assert all(target == TARGETS[task](source) for source, target in pairs)
    assert {len(source) for source, _ in pairs} == set(range(1, 7))
    assert {symbol for source, _ in pairs for symbol in source} == set(range(FIRST_SYMBOL, 12))


def test_batches_depend_on_the_seed_and_differ_from_each_other():
    assert torch.equal(toy_batch("copy", 8, seed=1).source, toy_batch("copy", 8, seed=1).source)
    first, second = itertools.islice(toy_batches("reverse", 8, seed=1), 2)
    assert len(first) == 8
    assert first.source.tolist() != second.source.tolist()
    assert torch.equal(first.source, next(toy_batches("reverse", 8, seed=1)).source)


def test_a_vocabulary_without_symbols_is_rejected():
    with pytest.raises(SettingsError, match="vocabulary: 4 leaves no symbols beside 4 special tokens"):
        toy_pairs("copy", 1, seed=0, vocabulary=4)
