"""The score of a given translation is that of the search; words are aligned with those of the source."""

import math

import pytest
import torch

from clearhead.errors import ModelError, TextError
from clearhead.tasks.load import load
from clearhead.tasks.translation.pair import pair_logits
from clearhead.text.tokenizer import EOS

TEXTS = ["three one four", "one", "nine two six five three five"]


@pytest.fixture(scope="module")
def model(number_model):
    return load(number_model)


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4, "nbest": 4}])
def test_a_found_translation_has_the_score_of_the_search(model, options):
    for found in model.translate(TEXTS, **options):
        for one in found.nbest:
            scored = model.score(found.source, one)
            assert scored.sum_log_prob == pytest.approx(one.sum_log_prob, abs=1e-4)
            assert scored.score == pytest.approx(one.score, abs=1e-4)
            assert len(scored.tokens) == len(scored.log_probs) == len(one.ids) + one.complete


def test_a_score_is_that_of_a_teacher_forced_pass(model):
    source, target = "three one four", "4 1"
    ids = model.tokenizer.encode(target)
    logits = pair_logits(model.model, [*model.tag(None), *model.tokenizer.encode(source)], ids)
    log_probs = logits.log_softmax(-1).gather(1, torch.tensor([*ids, EOS])[:, None])[:, 0].tolist()
    scored = model.score(source, target)
    assert list(scored.log_probs) == pytest.approx(log_probs, abs=1e-5)
    assert scored.sum_log_prob == pytest.approx(sum(log_probs))
    assert scored.perplexity == pytest.approx(math.exp(-sum(log_probs) / len(log_probs)))
    assert scored.tokens[-1] == "</s>"


def test_a_score_does_not_depend_on_the_pairs_beside_it(model):
    targets = ["3 1 4", "7", "9 2 6 5 3 5 3 5 8"]
    batched = model.score(TEXTS, targets)
    for source, target, one in zip(TEXTS, targets, batched, strict=True):
        alone = model.score(source, target)
        assert list(one.log_probs) == pytest.approx(list(alone.log_probs), abs=1e-5)
    assert model.score([], []) == []
    right, wrong = model.score(["one", "one"], ["1", "7"])
    assert right.sum_log_prob > wrong.sum_log_prob


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (["one", "two"], ["1"], "target: 1 texts for 2 sources; pass one for each"),
        (["one", " "], ["1", "2"], "source 2: is blank; give a text"),
        (3, "1", "source 1: 3 is of type int; pass a str"),
        ("one", 3, "target 1: 3 is of type int; pass a str"),
        (["one"], [None], "target 1: None is of type NoneType; pass a str"),
        ("one", "1 " * 900, r"target 1 \('1 1 .*…'\): \d+ tokens, but the model takes at most \d+; split it"),
    ],
)
def test_bad_pairs_are_named(model, source, target, message):
    for method in (model.score, model.align):
        if method == model.align and "tokens" in message:
            continue
        with pytest.raises(TextError, match=message):
            method(source, target)


def test_aligned_words_belong_together(model):
    found = model.align("three one four", "3 1 4")
    assert (found.source, found.target) == (["three", "one", "four"], ["3", "1", "4"])
    assert found.links == [(0, 0), (1, 1), (2, 2)]
    assert [pair[:2] for pair in found.linked_words] == [("three", "3"), ("one", "1"), ("four", "4")]
    assert all(0 < agreement <= 1 for _, _, agreement in found.linked_words)
    assert repr(found).startswith("WordAlignment(decoder.blocks.")


def test_pairs_of_a_list_are_aligned_by_one_head(model):
    translations = model.translate(TEXTS)
    batched = model.align(TEXTS, translations)
    assert len({(one.attention, one.aligner.head) for one in batched}) == 1
    again = model.align(TEXTS[0], translations[0], aligner=batched[0].aligner)
    assert again.links == batched[0].links
    assert model.align([], []) == []
    with pytest.raises(TextError, match="target 1: is blank; give a text"):
        model.align("one", " ")


def test_a_model_without_cross_attention_aligns_nothing(model, monkeypatch):
    from clearhead.tasks.translation import alignment

    class Blind:
        attentions = ()

    monkeypatch.setattr(alignment, "anatomy_of", lambda model: Blind())
    with pytest.raises(ModelError, match="does not attend to its source"):
        model.align("one", "1")
