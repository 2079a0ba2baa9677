"""The table by source length cuts the test set into parts and scores each as a whole."""

import pytest
import sacrebleu

from clearhead.errors import DataError, SettingsError
from clearhead.evaluation import by_length


def test_each_bucket_is_scored_as_a_corpus_of_its_own(texts):
    buckets = by_length(texts.sources, texts.good, texts.references, "de", bounds=(8, 16))
    assert [bucket.label for bucket in buckets] == ["0-8", "9-16", "17+"]
    for bucket in buckets:
        max_length = bucket.max_length or 1000
        lines = [
            n
            for n, source in enumerate(texts.sources)
            if bucket.shortest <= len(source.split()) <= max_length
        ]
        hypotheses = [texts.good[n] for n in lines]
        references = [[texts.references[n] for n in lines]]
        assert bucket.sentences == len(lines)
        assert bucket.bleu == sacrebleu.corpus_bleu(hypotheses, references).score
        assert bucket.chrf == sacrebleu.corpus_chrf(hypotheses, references).score


def test_the_buckets_hold_every_sentence_once(texts):
    buckets = by_length(texts.sources, texts.good, texts.references, "de")
    assert sum(bucket.sentences for bucket in buckets) == len(texts.sources)


def test_one_bucket_equals_the_whole(texts):
    [bucket] = by_length(texts.sources, texts.good, texts.references, "de", bounds=())
    assert bucket.bleu == sacrebleu.corpus_bleu(texts.good, [texts.references]).score


def test_buckets_without_sentences_are_left_out():
    buckets = by_length(["one two", " ".join(["w"] * 60)], ["a b", "c"], ["a b", "c d"], "de")
    assert [(bucket.label, bucket.sentences) for bucket in buckets] == [("0-10", 1), ("51+", 1)]
    assert [bucket.length_ratio for bucket in buckets] == [1.0, 0.5]


def test_unequal_line_counts_are_named():
    with pytest.raises(DataError, match="unequal numbers of lines: 2 sources, 1 translations, 1 references;"):
        by_length(["a", "b"], ["a"], ["a"], "de")


@pytest.mark.parametrize("bounds", [(20, 10), (10, 10), (-1, 5)])
def test_bounds_must_rise(bounds):
    with pytest.raises(SettingsError, match=r"bounds: \[.*\] should rise from 0 or more"):
        by_length(["a"], ["a"], ["a"], "de", bounds)
