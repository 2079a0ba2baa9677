"""The lectures' words in context: attention over static vectors changes what a word is near to."""

import pytest
import torch

from clearhead.models.word_vectors import WordVectors, WordVectorsConfig
from clearhead.tasks.word_vectors.model import WordVectorsModel
from clearhead.text.vocabulary import Vocabulary


def by_hand(**vectors: list[float]) -> WordVectorsModel:
    width = len(next(iter(vectors.values())))
    model = WordVectors(WordVectorsConfig(width=width, contexts=False), len(vectors))
    model.embedding.weight.data.copy_(torch.tensor(list(vectors.values())))
    return WordVectorsModel(model, Vocabulary(list(vectors), lower=False))


ORANGE = {"orange": [1.0, 0.0], "apple": [0.71, 0.7042], "motorcycle": [-1.0, 0.0]}


def test_orange_becomes_partly_apple():
    """Cosines 1 and 0.71, softmax: 0.57 orange + 0.43 apple; with a motorcycle 0.88 and 0.12."""
    model = by_hand(**ORANGE)
    assert model.similarity("orange", "apple") == pytest.approx(0.71, abs=0.005)
    for score in ("cosine", "dot"):  # the vectors have length 1
        fruit = model.in_context("orange apple", score)
        assert fruit.weights[0].tolist() == pytest.approx([0.57, 0.43], abs=0.005)
        expected = 0.57 * model.vector("orange") + 0.43 * model.vector("apple")
        torch.testing.assert_close(fruit.vectors[0], expected, atol=0.005, rtol=0)
        street = model.in_context("orange motorcycle", score)
        assert street.weights[0].tolist() == pytest.approx([0.88, 0.12], abs=0.005)


def test_weights_without_softmax_would_not_do():
    """1 and 0.71 over their sum are 0.58 and 0.42, but 1 and -1 have the sum 0: hence e to the power."""
    scores = torch.tensor([1.0, 0.71])
    assert (scores / scores.sum()).tolist() == pytest.approx([0.58, 0.42], abs=0.005)
    model = by_hand(**ORANGE)
    cosines = [model.similarity("orange", word) for word in ("orange", "motorcycle")]
    assert sum(cosines) == pytest.approx(0, abs=1e-6)
    assert float(model.in_context("orange motorcycle", "cosine").weights[0].sum()) == pytest.approx(1)


SENTENCE = {"I": [1.0, 0.0], "closed": [1.0, 1.0], "the": [0.0, 1.0], "windows": [2.0, 0.0]}


def test_i_closed_the_windows():
    """q·k/√2 of windows is 1.414, 1.414, 0 and 2.828, not the lecture's 0, 1.414, 1.414 and 1.

    So windows attends to itself most, to "I" and "closed" alike, and least to "the", where the lecture has
    windows = 1.414 closed + 1.414 the.
    """
    context = by_hand(**SENTENCE).in_context("I closed the windows", "scaled")
    scores = torch.tensor([1.414, 1.414, 0.0, 2.828])
    torch.testing.assert_close(context.weights[3], scores.softmax(0), atol=1e-3, rtol=0)
    assert context.weights[3].argsort().tolist()[0] == 2
    torch.testing.assert_close(
        context.vectors[3], scores.softmax(0) @ torch.tensor([*SENTENCE.values()]), atol=1e-3, rtol=0
    )


def test_windows_of_a_house_and_of_a_computer():
    """One static vector between both senses; each sentence pulls it to its own."""
    model = by_hand(
        windows=[1.0, 1.0], closed=[1.6, 0.2], house=[2.0, 0.1], bought=[0.9, 1.0], computer=[0.1, 2.0]
    )
    house, computer = (
        model.in_text("windows", text)
        for text in ("I closed the windows", "I bought windows for my computer")
    )
    near = {one.word: one.cosine for one in house.near}, {one.word: one.cosine for one in computer.near}
    assert near[0]["house"] > near[0]["computer"]
    assert near[1]["computer"] > near[1]["house"]
    static = model.similarity("windows", "house"), model.similarity("windows", "computer")
    assert static[0] == pytest.approx(static[1], abs=0.02)
