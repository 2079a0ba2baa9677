"""Translations against references: BLEU, chrF and TER as sacreBLEU defines them."""

from collections.abc import Callable, Sequence
from importlib.metadata import version

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from clearhead.evaluation.metric import Score, check_lines

# sacreBLEU tokenizers for languages without spaces between words.
TOKENIZATIONS = {"zh": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}


def scores(hypotheses: Sequence[str], references: Sequence[str], language: str) -> list[Score]:
    """BLEU, lower-cased Moses BLEU if the language has spaces, chrF and TER; `language` is the target's."""
    measures: list[Callable[..., Score]] = [bleu, chrf, ter]
    if language not in TOKENIZATIONS:
        measures.insert(1, moses_bleu)
    return [measure(hypotheses, references, language) for measure in measures]


def bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU on plain text (Papineni et al. 2002, Post 2018)."""
    return _score(bleu_metric(language), hypotheses, references)


def bleu_metric(language: str, references: Sequence[str] | None = None) -> BLEU:
    """sacreBLEU's BLEU. References given here are tokenized once; `corpus_score` then takes None for them."""
    tokenize = TOKENIZATIONS.get(language, "13a")
    return BLEU(tokenize=tokenize, references=None if references is None else [references])


def chrf(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """The F-score of character n-grams (Popović 2015)."""
    return _score(CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """Edits needed per hundred reference words: lower is better (Snover et al. 2006)."""
    return _score(TER(), hypotheses, references)


def moses_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """Lower-cased BLEU with the Moses tokenizer, for comparison with papers that report it."""
    check_lines(translations=hypotheses, references=references)
    # Imported here because it is slow to import.
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)

    def words(lines: Sequence[str]) -> list[str]:
        return [str(tokenizer.tokenize(line, return_str=True, escape=False)) for line in lines]

    metric = BLEU(lowercase=True, tokenize="none", force=True)
    value = metric.corpus_score(words(hypotheses), [words(references)]).score
    signature = metric.get_signature()
    signature.update("tok", f"moses.{language}.sacremoses-{version('sacremoses')}")
    return Score("BLEU (lower-cased, Moses)", value, str(signature))


def _score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_lines(translations=hypotheses, references=references)
    result = metric.corpus_score(hypotheses, [references])
    return Score(result.name, result.score, str(metric.get_signature()))
