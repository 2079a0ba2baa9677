"""Our scores equal those of sacreBLEU."""

import subprocess
import sys

import pytest
import sacrebleu
from sacremoses import MosesTokenizer

from clearhead.errors import DataError
from clearhead.evaluation.bleu import bleu, chrf, moses_bleu, scores, ter
from clearhead.evaluation.metric import Score


def test_scores_equal_sacrebleus_own(texts):
    found = {score.name: score.value for score in scores(texts.good, texts.references, "de")}
    references = [texts.references]
    assert found["BLEU"] == sacrebleu.corpus_bleu(texts.good, references).score
    assert found["chrF2"] == sacrebleu.corpus_chrf(texts.good, references).score
    assert found["TER"] == sacrebleu.corpus_ter(texts.good, references).score
    assert list(found) == ["BLEU", "BLEU (lower-cased, Moses)", "chrF2", "TER"]


def test_signatures_are_sacrebleus_own(texts):
    for measure, metric in [
        (bleu, sacrebleu.BLEU()),
        (chrf, sacrebleu.CHRF()),
        (ter, sacrebleu.TER()),
    ]:
        metric.corpus_score(texts.good, [texts.references])
        assert measure(texts.good, texts.references, "de").signature == str(metric.get_signature())


def test_moses_bleu_equals_bleu_of_tokenised_lower_cased_text(texts):
    tokenizer = MosesTokenizer("de")

    def prepared(lines):
        return [" ".join(tokenizer.tokenize(line)).lower() for line in lines]

    expected = sacrebleu.corpus_bleu(
        prepared(texts.good), [prepared(texts.references)], tokenize="none", force=True
    )
    assert moses_bleu(texts.good, texts.references, "de").value == pytest.approx(expected.score)


def test_moses_bleu_ignores_case_and_has_a_signature():
    score = moses_bleu(["DER HUND, SCHLÄFT IM GARTEN."], ["Der Hund, schläft im Garten."], "xx")
    assert score.value == pytest.approx(100)
    assert "|case:lc|" in score.signature
    assert "|tok:moses.xx.sacremoses-" in score.signature


def test_languages_without_spaces_have_no_word_based_scores():
    found = scores(["我喜欢猫。"], ["我喜欢狗。"], "zh")
    assert [score.name for score in found] == ["BLEU", "chrF2", "TER"]
    assert "tok:zh" in found[0].signature
    assert "tok:char" in bleu(["私は猫が好き"], ["私は犬が好き"], "ja").signature


def test_a_score_prints_its_signature():
    assert str(Score("BLEU", 41.018, "nrefs:1|tok:13a")) == "BLEU 41.02 (nrefs:1|tok:13a)"


@pytest.mark.parametrize("measure", [bleu, chrf, ter, moses_bleu, scores])
def test_different_line_counts_are_refused(measure):
    with pytest.raises(DataError) as caught:
        measure(["a", "b", "c"], ["a", "b"], "de")
    assert str(caught.value) == (
        "line counts differ: 3 translations, 2 references; give files that match line by line"
    )


@pytest.mark.parametrize("measure", [bleu, chrf, ter, moses_bleu, scores])
def test_empty_input_is_refused(measure):
    with pytest.raises(DataError, match="translations: no lines, nothing to score"):
        measure([], [], "de")


def test_empty_translations_score_zero():
    assert bleu(["", ""], ["ein Hund", "eine Katze"], "de").value == 0


def test_evaluation_does_not_import_torch():
    program = "import sys, clearhead.evaluation.significance; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
