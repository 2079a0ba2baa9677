"""Placeholders for words that a translation copies."""

import numpy as np
import pytest

from clearhead.data.copying import Copying, can_copy
from clearhead.data.store import PairStore
from clearhead.text.extension import extend
from clearhead.text.kinds import PLACEHOLDERS, STAND_INS
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

PAIRS = [
    ("Tom has 3 dogs.", "Tom hat 3 Hunde."),
    ("I saw Tom in Boston.", "Ich sah Tom in Boston."),
    ("Was he in Boston?", "Was war in Boston?"),
    ("Come at 10:30, (Tom)!", "Komm um 10:30, (Tom)!"),
    ("Go to www.x.org, Tom.", "Geh zu www.x.org, Tom."),
    ("The hand is warm.", "Die Hand ist warm."),
    ("See Tom, Tom and Mary.", "Sieh Tom und Maria."),
] * 30


@pytest.fixture(scope="module")
def tokenizer():
    texts = [text for pair in PAIRS for text in pair]
    return Tokenizer.train(texts, TokenizerConfig(vocabulary=700), ["<2de>", *PLACEHOLDERS])


@pytest.fixture(scope="module")
def store(tokenizer):
    tag = tokenizer.id("<2de>")
    sources = [[tag, *tokenizer.encode(source)] for source, _ in PAIRS]
    return PairStore.of(sources, [tokenizer.encode(target) for _, target in PAIRS])


def texts(tokenizer, sides):
    """Both sides of each pair, with stand-ins."""
    return [
        tuple(tokenizer.decode_protected(side[row].tolist()) for side in sides)
        for row in range(len(sides[0]))
    ]


def test_a_tokenizer_without_placeholders_copies_nothing(tokenizer):
    assert can_copy(tokenizer)
    assert not can_copy(Tokenizer.train(["a b"], TokenizerConfig(vocabulary=700)))


def test_names_and_numbers_become_the_same_placeholders_on_both_sides(tokenizer, store):
    copying = Copying(store, tokenizer, 1.0, seed=1, max_length=100)
    rows, seen = np.arange(len(store)), set()
    for epoch in range(6):
        for (source, target), (plain, german) in zip(
            texts(tokenizer, copying(epoch, rows)), PAIRS, strict=True
        ):
            names = [one for one in source if one in STAND_INS]
            assert sorted(names) == sorted(one for one in target if one in STAND_INS)
            assert len(set(names)) == len(names)
            parts = source.split()
            if len(parts) == len(plain.split()):  # without a placeholder at an end
                replaced = zip(plain.split(), parts, strict=True)
                seen |= {word for word, part in replaced if set(part) & set(STAND_INS)}
            if not names:
                assert (source, target) == (plain, german)
    found = {word.strip(".,!?()") for word in seen}
    assert found >= {"Tom", "3", "Boston", "10:30", "www.x.org"}
    assert not found & {"Was", "warm", "hand", "Mary", "The", "in"}


def test_text_with_placeholders_is_tokenized_as_in_a_translation(tokenizer, store):
    sides = Copying(store, tokenizer, 1.0, seed=1, max_length=100)(0, np.arange(len(store)))
    tag = tokenizer.id("<2de>")
    for number in range(len(store)):
        ids = sides[0][number].tolist()
        assert not ids or ids[0] == tag
        assert tokenizer.encode_protected([tokenizer.decode_protected(ids)]) == [ids[1:]]
        ids = sides[1][number].tolist()
        assert tokenizer.encode_protected([tokenizer.decode_protected(ids)]) == [ids]


def test_a_pair_depends_on_seed_epoch_and_row_alone(tokenizer, store):
    copying = Copying(store, tokenizer, 0.5, seed=1, max_length=100)
    rows = np.arange(len(store))
    whole = texts(tokenizer, copying(3, rows))
    shuffled = np.random.default_rng(0).permutation(rows)
    again = texts(tokenizer, Copying(store, tokenizer, 0.5, seed=1, max_length=100)(3, shuffled[:50]))
    assert again == [whole[row] for row in shuffled[:50]]
    assert texts(tokenizer, copying(4, rows)) != whole
    assert texts(tokenizer, Copying(store, tokenizer, 0.5, seed=2, max_length=100)(3, rows)) != whole


def test_the_share_is_that_of_the_setting(tokenizer, store):
    rows = np.arange(len(store))
    assert texts(tokenizer, Copying(store, tokenizer, 0.0, 1, 100)(0, rows)) == [*PAIRS]
    changed = sum(
        pair != plain
        for epoch in range(20)
        for pair, plain in zip(
            texts(tokenizer, Copying(store, tokenizer, 0.2, 1, 100)(epoch, rows)), PAIRS, strict=True
        )
    )
    assert 0.08 < changed / (20 * len(rows)) < 0.25


def test_no_sentence_becomes_longer_than_the_model_takes(tokenizer, store):
    limit = max(len(store.source[row]) for row in range(len(store)))
    source, target = Copying(store, tokenizer, 1.0, 1, limit)(0, np.arange(len(store)))
    assert max(source.lengths.max(), target.lengths.max()) <= limit


def test_all_placeholders_are_learned(tokenizer, store):
    copying = Copying(store, tokenizer, 1.0, seed=1, max_length=100)
    found = {one for side in copying(0, np.arange(len(store))) for one in side.ids.tolist()}
    assert found >= set(tokenizer.placeholder_ids)


def test_it_works_on_top_of_bpe_dropout(tokenizer, store):
    from clearhead.data.bpe_dropout import BPEDropout

    dropout = BPEDropout(store, tokenizer, 0.3, seed=1, max_length=100)
    copying = Copying(store, tokenizer, 1.0, 1, 100, dropout)
    for source, target in texts(tokenizer, copying(0, np.arange(len(store)))):
        assert sorted(set(source) & set(STAND_INS)) == sorted(set(target) & set(STAND_INS))


def test_padded_batches_are_as_tight_as_the_lengths_of_the_epoch_allow(tokenizer, store):
    from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches

    copying = Copying(store, tokenizer, 0.5, 1, 100)
    rows = np.arange(len(store))
    assert [one.tolist() for one in copying.lengths(3)] == [
        side.lengths.tolist() for side in copying(3, rows)
    ]

    def padding(**options):
        batches = PaddedBatches(store, BatchingConfig(tokens=120), 1, encode=copying, **options)
        return sum(batch.padding for epoch in range(3) for batch in batches.epoch(epoch))

    assert padding(lengths=copying.lengths) < padding()


def test_a_language_tag_that_was_added_later_stays_first(tokenizer):
    grown = extend(tokenizer, [], ["<2cs>"]).tokenizer
    tag = grown.id("<2cs>")
    sources = [[tag, *grown.encode(source)] for source, _ in PAIRS]
    store = PairStore.of(sources, [grown.encode(target) for _, target in PAIRS])
    for epoch in range(4):
        source, _ = Copying(store, grown, 1.0, seed=1, max_length=100)(epoch, np.arange(len(store)))
        assert {source[row].tolist()[0] for row in range(len(store))} == {tag}
