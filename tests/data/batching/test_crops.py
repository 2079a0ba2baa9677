"""Batches of running text: every token once, the same for the same seed."""

from collections import Counter

import numpy as np
import pytest

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.batching.crops import Crops, PackedTexts, TextBatchingConfig
from clearhead.data.batching.plan import Share
from clearhead.data.build import cached_texts
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.sources.plain_text import TextChunk
from clearhead.data.store import PairStore, TextStore
from clearhead.errors import DataError
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

RANDOM = np.random.default_rng(0)
# All tokens of the corpus are distinct.
TOKENS = iter(range(10, 1 << 30))
TEXTS = [[next(TOKENS) for _ in range(length)] for length in RANDOM.integers(1, 60, size=300)]
STORE = TextStore.of(TEXTS)
DELIMITERS = (BOS, EOS)
CONFIG = TextBatchingConfig(tokens=128, row_length=16)


def packed(store=STORE, config=CONFIG, **share) -> PackedTexts:
    return PackedTexts(DelimitedDocuments(store, DELIMITERS), config, seed=3, share=Share(**share))


def labels(batch) -> Counter:
    return Counter(batch.labels[batch.labels != IGNORE_INDEX].tolist())


def test_every_token_and_every_end_is_a_label_once_per_epoch():
    for epoch in (0, 1):
        counts = sum(map(labels, packed().epoch(epoch)), Counter())
        assert counts.pop(EOS) == len(TEXTS)
        assert counts == Counter(token for text in TEXTS for token in text)


def test_the_input_of_a_label_is_the_token_before_it():
    before = {
        token: text[position - 1] if position else BOS
        for text in TEXTS
        for position, token in enumerate(text)
    }
    for batch in packed().epoch(0):
        known = (batch.labels > EOS) & (batch.documents > 0)
        for given, wanted in zip(batch.inputs[known].tolist(), batch.labels[known].tolist(), strict=True):
            assert before[wanted] == given


def test_positions_count_from_the_start_of_a_span():
    batch = next(packed().epoch(0))
    for row in range(len(batch)):
        numbers = batch.documents[row].tolist()
        for number in set(numbers) - {0}:
            positions = batch.positions[row][batch.documents[row] == number].tolist()
            assert positions == list(range(len(positions)))
        assert numbers == sorted(numbers, key=lambda number: number or len(numbers) + 1)


def test_rows_are_nearly_full():
    batches = list(packed().epoch(0))
    assert sum(batch.padding for batch in batches[:-1]) / len(batches[:-1]) < 0.06
    assert all(batch.static_shape and batch.cells.shape == (4, 8, 16) for batch in batches)


def test_the_parts_of_a_batch_add_up_to_it():
    batch = next(packed().epoch(0))
    parts = batch.split(3)
    assert sum(part.tokens for part in parts) == batch.tokens
    assert sum(map(labels, parts), Counter()) == labels(batch)


@pytest.mark.parametrize("kind", [PackedTexts, Crops])
def test_ranks_share_an_epoch_that_can_resume_anywhere(kind):
    def make(**share):
        return kind(DelimitedDocuments(STORE, DELIMITERS), CONFIG, seed=3, share=Share(**share))

    whole = [batch.inputs.tolist() for batch in make(batches_per_step=4).epoch(2)]
    shared = [list(make(rank=rank, ranks=2, batches_per_step=4).epoch(2)) for rank in (0, 1)]
    assert len(whole) % 4 == 0
    for rank in (0, 1):
        assert [batch.inputs.tolist() for batch in shared[rank]] == whole[rank::2]
        late = make(rank=rank, ranks=2, batches_per_step=4).epoch(2, skip=8)
        assert [batch.inputs.tolist() for batch in late] == whole[8 + rank :: 2]
    assert whole != [batch.inputs.tolist() for batch in make(batches_per_step=4).epoch(3)]


def test_crops_are_spans_of_the_stream_without_overlap():
    text = list(range(10, 5000))
    crops = Crops(DelimitedDocuments(TextStore.of([text]), None), CONFIG, seed=1)
    seen: Counter = Counter()
    for batch in crops.epoch(0):
        assert batch.ids.shape == (8, 17)
        assert ((batch.labels - batch.inputs) == 1).all()
        seen += labels(batch)
    assert set(seen.values()) == {1}
    assert len(seen) > len(text) - 2 * 128


def test_several_documents_are_cropped_with_their_delimiters():
    crops = Crops(DelimitedDocuments(TextStore.of([[10, 11], [12]]), DELIMITERS), CONFIG, seed=1)
    [batch] = crops.sequential()
    assert batch.ids.tolist() == [[BOS, 10, 11, EOS, BOS, 12, EOS]]


def test_a_text_shorter_than_a_step_is_sampled_at_random():
    crops = Crops(DelimitedDocuments(TextStore.of([[10, 11, 12, 13]]), None), CONFIG, seed=1)
    [batch] = crops.epoch(0)
    assert batch.ids.shape == (8, 4)
    with pytest.raises(DataError, match="1 tokens are too few to train on"):
        Crops(DelimitedDocuments(TextStore.of([[10]]), None), CONFIG, seed=1)


def test_sequential_batches_cover_the_text_once():
    text = list(range(10, 1000))
    crops = Crops(DelimitedDocuments(TextStore.of([text]), None), CONFIG, seed=1)
    assert sum(map(labels, crops.sequential()), Counter()) == Counter(text[1:])
    counts = sum(map(labels, packed().sequential()), Counter())
    assert counts.pop(EOS) == len(TEXTS)
    assert counts == Counter(token for one in TEXTS for token in one)


def test_only_answers_are_labels_not_prompts():
    store = PairStore.of([[10, 11, 12], [20]], [[13], [21, 22]])
    batches = PackedTexts(DelimitedDocuments(store, DELIMITERS), CONFIG, seed=3)
    [batch] = batches.epoch(0)
    assert labels(batch) == Counter([13, EOS, 21, 22, EOS])
    assert batch.tokens == 5
    read = batch.inputs[batch.documents > 0].tolist()
    assert Counter(read) == Counter([BOS, 10, 11, 12, 13, BOS, 20, 21, 22])


def test_a_stored_text_decodes_to_the_text(tmp_path):
    text = "some tokens,\n and more of them. " * 50
    tokenizer = Tokenizer.train([text], TokenizerConfig(kind="bytes", vocabulary=300))
    stream = [TextChunk(text, last=False), TextChunk(" A tail.", last=True), TextChunk("Another.", last=True)]
    for source in (lambda: stream, lambda: pytest.fail("built twice")):
        store = cached_texts(tmp_path, {"files": 1}, source, tokenizer)
        assert [tokenizer.decode(store[number].tolist()) for number in range(2)] == [
            text + " A tail.",
            "Another.",
        ]
        assert store.meta["bytes"] == store.meta["characters"] == len(text) + 16


def test_a_document_without_tokens_is_left_out(tmp_path):
    class Ascii(Tokenizer):
        def __init__(self):
            self.size, self.fingerprint = 128, "ascii"

        def encode_batch(self, texts):
            return [[ord(character) for character in text if character.isascii()] for text in texts]

    known, unknown = TextChunk("ab", last=False), TextChunk("北京", last=True)
    stream = [unknown, known, unknown, unknown, TextChunk("c", last=True), unknown]
    store = cached_texts(tmp_path, {"files": 2}, lambda: stream, Ascii())
    assert [bytes(store[number].tolist()) for number in range(len(store))] == [b"ab", b"c"]
    with pytest.raises(DataError, match="no documents are left"):
        cached_texts(tmp_path, {"files": 3}, lambda: [unknown], Ascii())
