"""Rows of questions: marks, windows, targets, and the way back to characters."""

import numpy as np
import pytest

from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.sources.questions import Question
from clearhead.models import EncoderConfig
from clearhead.models.heads import ClassifierConfig, SpanConfig
from clearhead.tasks.question_answering.data import QuestionBatches
from clearhead.tasks.question_answering.encoding import QuestionEncoder
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

TEXT = "The Émigré Society invaded  Norway (in 1066), and left.\nIt never came back: “why?” no one knows."


def encoder(text: str = TEXT, kind: str = "bpe", head=None, **config) -> QuestionEncoder:
    tokenizer = Tokenizer.train([text] * 3, TokenizerConfig(kind=kind, vocabulary=60, lowercase=True))  # pyright: ignore
    config = {"max_length": 64, "token_types": 5, **config}
    return QuestionEncoder(
        TextProcessor(tokenizer, ("no", "yes")), EncoderConfig(head=head or SpanConfig(), **config), 4
    )


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
def test_tokens_lead_back_to_their_characters(kind: str):
    [text] = encoder(kind=kind).texts([TEXT])
    for word in ["Émigré", "Norway", "1066", "left", "came back", "“why?”"]:
        first = TEXT.index(word)
        start, end = text.tokens(first, first + len(word))
        begin, stop = text.characters(start, end)
        assert word in TEXT[begin:stop]
        assert TEXT[begin:stop].split() == TEXT[begin:stop].strip().split()
        if kind in ("word", "character"):
            assert TEXT[begin:stop] == word


def test_tokens_know_their_line():
    one = encoder()
    [text] = one.texts([TEXT])
    assert text.lines().tolist() == [0] * len(one.texts([TEXT.split("\n")[0]])[0].ids) + [1] * len(
        one.texts([TEXT.split("\n")[1]])[0].ids
    )


def test_words_that_occur_in_the_question_are_marked_whatever_their_ending():
    one = encoder(kind="word")
    rows = one.rows([Question(TEXT, "Who invades norway?", ("1066",))])
    pieces = one.tokenizer.pieces(rows.tokens[0].tolist())
    text = slice(1, int(rows.contexts[0]) + 1)
    types = dict(zip(pieces[text], rows.types[0].tolist()[text], strict=True))
    assert types["invaded"] == 2
    assert types["norway"] == 4
    assert types["society"] == 3
    assert types["left"] == 0
    fewer = encoder(kind="word", token_types=3).rows([Question(TEXT, "Who invades norway?", ("1066",))])
    assert set(fewer.types[0].tolist()) == {0, 1, 2}
    assert set(encoder(kind="word", token_types=2).rows([Question(TEXT, "Who?", ())]).types[0].tolist()) == {
        0,
        1,
    }


def test_a_row_is_the_text_and_then_the_question():
    one = encoder(kind="word")
    rows = one.rows([Question(TEXT, "Who left?", ("Émigré Society",))])
    ids, length = rows.tokens[0].tolist(), int(rows.contexts[0])
    assert ids[0] == BOS
    assert ids[length + 1] == ids[-1] == EOS
    assert one.tokenizer.decode(ids[1 : length + 1]).startswith("the émigré society")
    assert one.tokenizer.decode(ids[length + 2 : -1]) == one.tokenizer.decode(
        one.tokenizer.encode("Who left?")
    )
    assert rows.targets[0][0].tolist() == [2, 3]
    assert (rows.targets[0][1:] == -1).all()


def test_windows_cover_every_token_and_own_each_once():
    one = encoder(kind="word", max_length=16)
    question = Question(TEXT, "Who left?", ("Norway",))
    rows = one.rows([question])
    [text] = one.texts([TEXT])
    assert len(rows.questions) > 2
    assert rows.tokens.lengths.max() <= 16
    owned = np.concatenate(
        [np.arange(*span) + first - 1 for span, first in zip(rows.owned, rows.first, strict=True)]
    )
    assert owned.tolist() == list(range(len(text.ids)))
    for row in range(len(rows.questions)):
        length, first = int(rows.contexts[row]), int(rows.first[row])
        assert rows.tokens[row][1 : length + 1].tolist() == text.ids[first : first + length].tolist()
        start, end = rows.targets[row][0].tolist()
        if start:
            assert TEXT[slice(*text.characters(start + first - 1, end + first - 1))] == "Norway"
    # A window without the answer has none.
    assert {tuple(target[0]) for target in rows.targets.tolist()} > {(0, 0)}


def test_a_text_that_fits_has_one_window():
    for limit in (40, 64):
        rows = encoder(kind="word", max_length=limit).rows([Question(TEXT, "Who left?", ("Norway",))])
        assert len(rows.questions) == 1


def test_a_classifier_reads_the_end_of_a_long_story():
    one = encoder(kind="word", max_length=16, head=ClassifierConfig())
    rows = one.rows([Question(TEXT, "Who left?", ("yes",)), Question(TEXT, "Who left?", ("perhaps",))])
    [text] = one.texts([TEXT])
    assert rows.tokens.lengths.tolist() == [16, 16]
    assert rows.tokens[0][1 : rows.contexts[0] + 1].tolist() == text.ids[-int(rows.contexts[0]) :].tolist()
    assert rows.targets.tolist() == [1, -1]


def test_batches_hold_every_row_once_and_have_few_shapes():
    one = encoder(kind="word")
    questions = [Question(" ".join(TEXT.split()[:n]), "Who left?", ("The",)) for n in range(1, 16)]
    batches = QuestionBatches(one.rows(questions), BatchingConfig(tokens=64, row_length=8), 64, seed=1)
    built = list(batches.epoch(0))
    assert {tuple(batch.ids.shape) for batch in built} <= {(8, 8), (4, 16), (2, 32), (1, 64)}
    assert sum(batch.tokens for batch in built) == len(questions)
    seen = sorted(
        tuple(ids[:length].tolist())
        for batch in built
        for ids, length, target in zip(batch.ids, batch.lengths, batch.targets, strict=True)
        if target[0, 0] >= 0
    )
    assert seen == sorted(tuple(batches.rows.tokens[row].tolist()) for row in range(len(questions)))
    again = QuestionBatches(one.rows(questions), BatchingConfig(tokens=64, row_length=8), 64, seed=1)
    assert all((a.ids == b.ids).all() for a, b in zip(built[2:], again.epoch(0, skip=2), strict=True))
