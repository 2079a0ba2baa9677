"""BPE dropout splits words at random, and reproducibly."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import SettingsError
from clearhead.text.dropout import MergeDropout, random_keys
from clearhead.text.tokenizer import UNK, Tokenizer, TokenizerConfig

from .conftest import LETTERS, PUNCTUATION, SENTENCES, TAGS, tokenizer_of

texts = st.text(st.sampled_from(LETTERS + PUNCTUATION + " 漢字"))


def split(tokenizer: Tokenizer, probability: float, word: list[int], tries: int) -> list[list[int]]:
    """The subword ids of a word, in several tries."""
    dropout, key = tokenizer.dropout(probability), random_keys((7,), np.arange(tries))
    characters = tokenizer.characters(word)
    assert characters is not None
    merges = np.full(tries, len(characters) - len(word))
    dropped = dropout.drops(merges, key)
    rows, counts = dropout.split(
        np.array([characters] * tries, np.int32), np.full(tries, len(characters)), key
    )
    return [rows[n, : counts[n]].tolist() if dropped[n] else word for n in range(tries)]


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_splits_are_as_frequent_as_in_the_library(kind):
    """The library cannot be seeded, so only frequencies can be compared."""
    import tokenizers

    tokenizer = tokenizer_of(kind)
    library = tokenizers.Tokenizer.from_str(tokenizer._inner.to_str())
    library.model.dropout = 0.3
    (word,) = tokenizer.words([tokenizer.encode("Garten")])[0]
    tries = 4000
    ours = Counter(map(tuple, split(tokenizer, 0.3, word, tries)))
    theirs = Counter(tuple(library.encode("Garten").ids) for _ in range(tries))
    assert len(theirs) > 4
    for found in ours | theirs:
        assert abs(ours[found] - theirs[found]) < 6 * (2 * max(ours[found], theirs[found])) ** 0.5 + 3


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_full_dropout_leaves_characters(kind):
    tokenizer = tokenizer_of(kind)
    for word in tokenizer.words([tokenizer.encode("Der Hund ist im Garten.")])[0]:
        assert split(tokenizer, 1.0, word, 3) == [tokenizer.characters(word)] * 3


def test_negligible_dropout_leaves_words_whole():
    tokenizer = tokenizer_of("bpe")
    for word in tokenizer.words([tokenizer.encode("Der Hund ist im Garten.")])[0]:
        assert split(tokenizer, 1e-12, word, 3) == [word] * 3
        assert split(tokenizer, 0.0, word, 3) == [word] * 3


def test_a_word_is_finished_when_all_merges_are_skipped():
    ids = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}
    dropout = MergeDropout([("a", "b"), ("ab", "c")], ids, 0.5)
    key = random_keys((1,), np.arange(3000))
    dropped = dropout.drops(np.full(3000, 2), key)
    rows, counts = dropout.split(np.array([[0, 1, 2]] * 3000, np.int32), np.full(3000, 3), key)
    found = Counter(
        tuple(row[:count].tolist()) for row, count in zip(rows[dropped], counts[dropped], strict=True)
    )
    found[4,] += int((~dropped).sum())
    # a b c: the first merge is skipped; ab c: the second.
    assert set(found) == {(0, 1, 2), (3, 2), (4,)}
    for ids_of_pieces, share in (((0, 1, 2), 0.5), ((3, 2), 0.25), ((4,), 0.25)):
        assert found[ids_of_pieces] / 3000 == pytest.approx(share, abs=0.05)


def test_a_split_does_not_depend_on_other_words():
    tokenizer = tokenizer_of("bpe")
    dropout = tokenizer.dropout(0.5)
    words = [word for sentence in tokenizer.words([tokenizer.encode(SENTENCES[4])]) for word in sentence]
    spelled = [tokenizer.characters(word) or [] for word in words]
    lengths = np.array([len(word) for word in spelled])
    rows = np.array([word + [UNK] * (lengths.max() - len(word)) for word in spelled], np.int32)
    key = random_keys((3,), np.arange(len(rows)))
    together, counts = dropout.split(rows, lengths, key)
    for n in range(len(rows)):
        alone, count = dropout.split(rows[n : n + 1, : lengths[n]], lengths[n : n + 1], key[n : n + 1])
        assert alone[0, : count[0]].tolist() == together[n, : counts[n]].tolist()


def test_keys_differ_by_seed_and_coordinates():
    row, column = np.repeat(np.arange(50), 50), np.tile(np.arange(50), 50)
    found = [random_keys(seed, row, column) for seed in ((1, 0), (0, 1), (1, 1))]
    assert len(np.unique(np.concatenate(found))) == 3 * 2500


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
@given(text=texts)
def test_words_are_the_groups_that_the_library_merges(kind, text):
    tokenizer = tokenizer_of(kind)
    ids = tokenizer.encode(text)
    (groups,) = tokenizer.words([ids])
    assert [number for group in groups for number in group] == ids
    if UNK in ids:
        return
    for group in groups:
        characters = tokenizer.characters(group)
        assert characters is not None
        whole = "".join(tokenizer._inner.id_to_token(number) for number in characters)
        whole = re.sub("(<0x..>)+", lambda spelled: _written(spelled[0]), whole)
        assert [token.id for token in tokenizer._inner.model.tokenize(whole)] == group


def _written(spelled: str) -> str:
    """The characters of byte tokens."""
    return bytes.fromhex(re.sub("<0x|>", "", spelled)).decode()


def test_tags_and_unknown_characters_are_words_that_cannot_be_split():
    tokenizer = tokenizer_of("bpe")
    tag = tokenizer.id(TAGS[1])
    assert tag is not None
    hund = tokenizer.encode("Hund")
    assert tokenizer.words([[tag, *hund]]) == [[[tag], hund]]
    spelled = tokenizer.encode("Hund 漢")[1:]
    assert tokenizer.words([[*hund, *spelled]]) == [[hund, spelled]]
    assert tokenizer.characters(spelled) == spelled
    plain = Tokenizer.train(SENTENCES, TokenizerConfig(vocabulary=600, byte_fallback=False))
    unknown = plain.encode("Hund 漢")
    assert plain.words([unknown]) == [[[number] for number in unknown]]
    assert tokenizer.characters([tag]) is None
    assert tokenizer.characters([UNK]) is None


@pytest.mark.parametrize("kind", ["unigram", "word", "character"])
def test_only_merges_can_be_dropped(kind):
    with pytest.raises(
        SettingsError, match=f"tokenizer: kind {kind} has no merges to drop; use kind bpe or bytes"
    ):
        tokenizer_of(kind).dropout(0.1)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_dropout_outside_0_to_1_is_rejected(probability):
    with pytest.raises(SettingsError, match="is not between 0 and 1"):
        tokenizer_of("bpe").dropout(probability)
