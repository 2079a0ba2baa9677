"""Words are split differently in each epoch, reproducibly, and the text stays the same."""

from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest

from clearhead.data.bpe_dropout import BPEDropout
from clearhead.data.store import PairStore, TokenSequences
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

SOURCES = ["the quick brown fox jumps", "a dog sleeps under the old tree", "no", "3.50 is the price!"] * 6
TARGETS = [
    "der schnelle braune fuchs springt",
    "ein hund schläft unter dem alten baum",
    "nein",
    "so viel.",
] * 6


@cache
def corpus(kind: str) -> tuple[Tokenizer, PairStore]:
    config = TokenizerConfig.model_validate({"kind": kind, "vocabulary": 400})
    tokenizer = Tokenizer.train(iter(SOURCES + TARGETS), config, tags=("<2de>",))
    tag = tokenizer.id("<2de>")
    sources = [[tag, *ids] for ids in tokenizer.encode_batch(SOURCES)]
    return tokenizer, PairStore.of(sources, tokenizer.encode_batch(TARGETS))


def dropout(kind: str = "bpe", probability: float = 0.3, seed: int = 1, max_length: int = 255) -> BPEDropout:
    tokenizer, pairs = corpus(kind)
    return BPEDropout(pairs, tokenizer, probability, seed, max_length)


def sentences(sides: Iterable[TokenSequences]) -> list[list[int]]:
    return [side[row].tolist() for side in sides for row in range(len(side))]


ROWS = np.arange(len(SOURCES))


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_the_text_and_the_tag_stay_the_same(kind):
    tokenizer, pairs = corpus(kind)
    source, target = dropout(kind)(0, ROWS)
    changed = 0
    for row in ROWS:
        assert source[row][0] == pairs.source[row][0]
        assert tokenizer.decode(source[row].tolist()) == SOURCES[row]
        assert tokenizer.decode(target[row].tolist()) == TARGETS[row]
        changed += source[row].tolist() != pairs.source[row].tolist()
    assert changed > 8


def test_a_split_depends_on_neither_other_rows_nor_earlier_calls():
    expected = sentences(dropout()(3, ROWS))
    used = dropout()
    used(2, ROWS[5:9])
    alone = [used(3, ROWS[row : row + 1]) for row in ROWS]
    assert [sentence for side in (0, 1) for pair in alone for sentence in sentences([pair[side]])] == expected
    backwards = dropout()(3, ROWS[::-1])
    assert sentences(backwards) == [
        sentence for half in (expected[: len(ROWS)], expected[len(ROWS) :]) for sentence in half[::-1]
    ]


def test_epochs_seeds_and_rows_differ():
    found = [sentences(dropout(seed=seed)(epoch, ROWS)) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    assert found[0] != found[1] != found[2] != found[0]
    same_text = {tuple(found[0][row]) for row in range(1, len(SOURCES), 4)}
    assert len(same_text) > 1


def test_zero_dropout_splits_nothing_and_full_dropout_everything():
    tokenizer, pairs = corpus("bpe")
    assert sentences(dropout(probability=0.0)(0, ROWS)) == sentences((pairs.source, pairs.target))
    for ids in sentences(dropout(probability=1.0)(0, ROWS)):
        assert all(len(piece) == 1 for piece in tokenizer.pieces(ids) if piece != "<2de>")


def test_a_sentence_that_would_become_too_long_stays_whole():
    _, pairs = corpus("bpe")
    max_length = int(max(pairs.source.lengths.max(), pairs.target.lengths.max()))
    source, target = dropout(probability=0.9, max_length=max_length)(0, ROWS)
    assert max(source.lengths.max(), target.lengths.max()) <= max_length
    assert sentences((source, target)) != sentences((pairs.source, pairs.target))


def test_sequences_can_be_joined_and_made_from_rows():
    joined = TokenSequences.joined(
        [TokenSequences.of([[1, 2], [3]]), TokenSequences.of([]), TokenSequences.of([[4]])]
    )
    assert sentences([joined]) == [[1, 2], [3], [4]]
    rows = joined.rows()
    assert rows.shape == (3, 2)
    again = TokenSequences.of_rows(rows, joined.lengths)
    assert sentences([again]) == [[1, 2], [3], [4]]
