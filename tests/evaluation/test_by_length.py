"""Scores by source length: each bucket is scored as a corpus."""

import pytest
import sacrebleu

from clearhead.errors import DataError, SettingsError
from clearhead.evaluation.by_length import by_length


def test_each_bucket_is_scored_as_a_corpus(texts):
    buckets = by_length(texts.sources, texts.good, texts.references, "de", bounds=(8, 16))
    assert [bucket.label for bucket in buckets] == ["0-8", "9-16", "17+"]
    for bucket in buckets:
        max_length = bucket.max_length or 1000
        lines = [
            n
            for n, source in enumerate(texts.sources)
            if bucket.min_length <= len(source.split()) <= max_length
        ]
        hypotheses = [texts.good[n] for n in lines]
        references = [[texts.references[n] for n in lines]]
        assert bucket.sentences == len(lines)
        assert bucket.bleu == sacrebleu.corpus_bleu(hypotheses, references).score
        assert bucket.chrf == sacrebleu.corpus_chrf(hypotheses, references).score


def test_every_sentence_is_in_one_bucket(texts):
    buckets = by_length(texts.sources, texts.good, texts.references, "de")
    assert sum(bucket.sentences for bucket in buckets) == len(texts.sources)


def test_a_single_bucket_equals_the_corpus_score(texts):
    [bucket] = by_length(texts.sources, texts.good, texts.references, "de", bounds=())
    assert bucket.bleu == sacrebleu.corpus_bleu(texts.good, [texts.references]).score


def test_empty_buckets_are_omitted():
    buckets = by_length(["one two", " ".join(["w"] * 60)], ["a b", "c"], ["a b", "c d"], "de")
    assert [(bucket.label, bucket.sentences) for bucket in buckets] == [("0-10", 1), ("51+", 1)]
    assert [bucket.length_ratio for bucket in buckets] == [1.0, 0.5]


def test_different_line_counts_are_refused():
    with pytest.raises(DataError, match="line counts differ: 2 sources, 1 translations, 1 references;"):
        by_length(["a", "b"], ["a"], ["a"], "de")


@pytest.mark.parametrize("bounds", [(20, 10), (10, 10), (-1, 5)])
def test_bounds_must_increase(bounds):
    with pytest.raises(SettingsError, match=r"bounds: \[.*\] should be increasing and not negative"):
        by_length(["a"], ["a"], ["a"], "de", bounds)
