from collections import Counter

import numpy as np
import pytest

from clearhead.data.batching.crops import Crops, PackedTexts, TextBatchingConfig
from clearhead.data.build import cached_texts
from clearhead.data.delimited import Enclosed
from clearhead.data.sources.documents import Piece
from clearhead.data.store import PairStore, TextStore
from clearhead.data.text_batch import IGNORED
from clearhead.errors import DataError
from clearhead.text.tokenizer import END, START, Tokenizer, TokenizerConfig

RANDOM = np.random.default_rng(0)
# Every token of the whole corpus is another one.
WORDS = iter(range(10, 1 << 30))
TEXTS = [[next(WORDS) for _ in range(length)] for length in RANDOM.integers(1, 60, size=300)]
STORE = TextStore.of(TEXTS)
SIGNS = (START, END)
CONFIG = TextBatchingConfig(tokens=128, row_length=16)


def packed(store=STORE, config=CONFIG, **ranks) -> PackedTexts:
    return PackedTexts(Enclosed(store, SIGNS), config, seed=3, **ranks)


def labels(batch) -> Counter:
    return Counter(batch.labels[batch.labels != IGNORED].tolist())


def test_packed_rows_learn_every_word_and_every_end_once_in_every_epoch():
    for epoch in (0, 1):
        counts = sum(map(labels, packed().epoch(epoch)), Counter())
        assert counts.pop(END) == len(TEXTS)
        assert counts == Counter(token for text in TEXTS for token in text)


def test_a_word_follows_its_own_predecessor_or_the_start_sign():
    before = {
        token: text[position - 1] if position else START
        for text in TEXTS
        for position, token in enumerate(text)
    }
    for batch in packed().epoch(0):
        learned = (batch.labels > END) & (batch.documents > 0)
        for given, wanted in zip(batch.inputs[learned].tolist(), batch.labels[learned].tolist(), strict=True):
            assert before[wanted] == given


def test_places_count_from_where_a_stretch_begins():
    batch = next(packed().epoch(0))
    for row in range(len(batch)):
        numbers = batch.documents[row].tolist()
        for number in set(numbers) - {0}:
            positions = batch.positions[row][batch.documents[row] == number].tolist()
            assert positions == list(range(len(positions)))
        assert numbers == sorted(numbers, key=lambda number: number or len(numbers) + 1)


def test_hardly_a_cell_is_empty():
    batches = list(packed().epoch(0))
    assert sum(batch.padding for batch in batches[:-1]) / len(batches[:-1]) < 0.06
    assert all(batch.static_shape and batch.cells.shape == (4, 8, 16) for batch in batches)


def test_parts_of_a_batch_make_the_whole():
    batch = next(packed().epoch(0))
    parts = batch.split(3)
    assert sum(part.tokens for part in parts) == batch.tokens
    assert sum(map(labels, parts), Counter()) == labels(batch)


@pytest.mark.parametrize("kind", [PackedTexts, Crops])
def test_ranks_share_an_epoch_which_can_be_entered_anywhere(kind):
    def make(**ranks):
        return kind(Enclosed(STORE, SIGNS), CONFIG, seed=3, **ranks)

    whole = [batch.inputs.tolist() for batch in make(batches_per_step=4).epoch(2)]
    shared = [list(make(rank=rank, ranks=2, batches_per_step=4).epoch(2)) for rank in (0, 1)]
    assert len(whole) % 4 == 0
    for rank in (0, 1):
        assert [batch.inputs.tolist() for batch in shared[rank]] == whole[rank::2]
        late = make(rank=rank, ranks=2, batches_per_step=4).epoch(2, skip=8)
        assert [batch.inputs.tolist() for batch in late] == whole[8 + rank :: 2]
    assert whole != [batch.inputs.tolist() for batch in make(batches_per_step=4).epoch(3)]


def test_crops_are_stretches_of_the_stream_and_seldom_meet():
    text = list(range(10, 5000))
    crops = Crops(Enclosed(TextStore.of([text]), None), CONFIG, seed=1)
    seen: Counter = Counter()
    for batch in crops.epoch(0):
        assert batch.ids.shape == (8, 17)
        assert ((batch.labels - batch.inputs) == 1).all()
        seen += labels(batch)
    assert set(seen.values()) == {1}
    assert len(seen) > len(text) - 2 * 128


def test_several_documents_are_cropped_with_their_signs():
    crops = Crops(Enclosed(TextStore.of([[10, 11], [12]]), SIGNS), CONFIG, seed=1)
    [batch] = crops.whole()
    assert batch.ids.tolist() == [[START, 10, 11, END, START, 12, END]]


def test_a_text_shorter_than_a_step_is_drawn_from_at_random():
    crops = Crops(Enclosed(TextStore.of([[10, 11, 12, 13]]), None), CONFIG, seed=1)
    [batch] = crops.epoch(0)
    assert batch.ids.shape == (8, 4)
    with pytest.raises(DataError, match="1 tokens are no text to learn from"):
        Crops(Enclosed(TextStore.of([[10]]), None), CONFIG, seed=1)


def test_the_whole_text_is_measured_once():
    text = list(range(10, 1000))
    crops = Crops(Enclosed(TextStore.of([text]), None), CONFIG, seed=1)
    assert sum(map(labels, crops.whole()), Counter()) == Counter(text[1:])
    counts = sum(map(labels, packed().whole()), Counter())
    assert counts.pop(END) == len(TEXTS)
    assert counts == Counter(token for one in TEXTS for token in one)


def test_of_prompts_and_answers_only_the_answers_are_learned():
    store = PairStore.of([[10, 11, 12], [20]], [[13], [21, 22]])
    batches = PackedTexts(Enclosed(store, SIGNS), CONFIG, seed=3)
    [batch] = batches.epoch(0)
    assert labels(batch) == Counter([13, END, 21, 22, END])
    assert batch.tokens == 5
    read = batch.inputs[batch.documents > 0].tolist()
    assert Counter(read) == Counter([START, 10, 11, 12, 13, START, 20, 21, 22])


def test_a_stored_text_is_the_text(tmp_path):
    text = "some tokens,\n and more of them. " * 50
    tokenizer = Tokenizer.train([text], TokenizerConfig(kind="bytes", vocabulary=300))
    stream = [Piece(text, last=False), Piece(" A tail.", last=True), Piece("Another.", last=True)]
    for source in (lambda: stream, lambda: pytest.fail("built twice")):
        store = cached_texts(tmp_path, {"files": 1}, source, tokenizer)
        assert [tokenizer.decode(store[number].tolist()) for number in range(2)] == [
            text + " A tail.",
            "Another.",
        ]
        assert store.meta["bytes"] == store.meta["characters"] == len(text) + 16


def test_a_document_without_a_word_that_the_tokenizer_knows_is_left_out(tmp_path):
    class Ascii(Tokenizer):
        def __init__(self):
            self.size, self.fingerprint = 128, "ascii"

        def encode_batch(self, texts):
            return [[ord(sign) for sign in text if sign.isascii()] for text in texts]

    known, strange = Piece("ab", last=False), Piece("北京", last=True)
    stream = [strange, known, strange, strange, Piece("c", last=True), strange]
    store = cached_texts(tmp_path, {"files": 2}, lambda: stream, Ascii())
    assert [bytes(store[number].tolist()) for number in range(len(store))] == [b"ab", b"c"]
    with pytest.raises(DataError, match="no documents are left"):
        cached_texts(tmp_path, {"files": 3}, lambda: [strange], Ascii())
