"""Claim g: attention aligns words; the alignment error of additive attention and of cross-attention.

    CLEARHEAD_DATA=FOLDER python -m benchmarks.claims.alignment --device cuda --processes 6 [--tiny]

Translators trained on the shipped Tatoeba pairs (English-French) read the 447 Hansards of WPT 2003 with
their translations; nothing is trained for alignment. The head is chosen without gold, as the one in which
words choose each other most (see benchmarks/alignment.py). The folder holds word-alignment/word-alignment-
gold.tar.xz.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.claims.claim import Claim, Options, Record, cases_of, main, mean, spread, table, text, values
from benchmarks.claims.lengths import TRANSFORMER
from benchmarks.claims.translators import TINY, Training, data_folder, recurrent, score, tatoeba, trained
from benchmarks.hansards import HANSARDS, read_hansards
from matplotlib.figure import Figure

from clearhead.evaluation.alignment import AlignedPair, Link, alignment_score
from clearhead.inspection.alignment import Aligner, merge_words
from clearhead.tasks.translation.alignment import CapturedPair, best_aligners, capture_pairs

MODELS: dict[str, dict[str, Any]] = {
    "additive attention": recurrent("gru", width=384),
    "cross-attention": TRANSFORMER,
}
DIAGONAL = "the diagonal"


def diagonal(pair: AlignedPair) -> set[Link]:
    """Each target word linked with the source word at the same share of the sentence."""
    sources, targets = len(pair.source), len(pair.target)
    return {(min(sources - 1, target * sources // targets), target) for target in range(targets)}


def largest(captured: CapturedPair, aligner: Aligner) -> set[Link]:
    """Each target word linked with the source word of its largest weight."""
    merged = merge_words(captured.layers[aligner.layer], captured.words, aligner.reads)[aligner.head]
    return {(source, target) for target, source in enumerate(merged.argmax(-1).tolist())}


def cases(options: Options) -> list[Record]:
    return [{"model": name, "seed": seed} for seed in options.seeds for name in MODELS]


def measure(options: Options, case: Record) -> Record:
    corpus = tatoeba("fr", options.tiny)
    settings = MODELS[case["model"]] | ({"width": 32} if options.tiny else {})
    training = TINY if options.tiny else Training(steps=2500)
    model = trained(corpus, settings, training, options, case["seed"])
    gold = read_hansards(data_folder() / HANSARDS)[: 5 if options.tiny else None]
    captured = list(capture_pairs(model, [(pair.source, pair.target) for pair in gold]))
    best = best_aligners(captured)[0]
    agreed = alignment_score([pair.links(best) for pair in captured], gold)
    return {
        "bleu": score(model, corpus.test),
        "agreement": agreed.error_rate,
        "precision": agreed.precision,
        "recall": agreed.recall,
        "largest": alignment_score([largest(pair, best) for pair in captured], gold).error_rate,
        "diagonal": alignment_score([diagonal(pair) for pair in gold], gold).error_rate,
        "head": f"layer {best.layer}, head {best.head}, {'input' if best.reads else 'predicted'} word",
    }


def report(records: Sequence[Record]) -> str:
    models = [model for model in MODELS if model in cases_of(records, "model")]
    rows = []
    for model in models:
        measured = [
            text(values(records, name, model=model), ".3f")
            for name in ("agreement", "precision", "recall", "largest")
        ]
        heads = ", ".join(sorted(set(values(records, "head", model=model))))
        rows.append([model, text(values(records, "bleu", model=model)), *measured, heads])
    error = values(records, "diagonal")[0]
    rows.append([DIAGONAL, "–", f"{error:.3f}", "–", "–", f"{error:.3f}", "–"])
    head = ["", "BLEU, Tatoeba", "AER", "precision", "recall", "AER, largest weight only", "head"]
    better = {model: mean(values(records, "agreement", model=model)) for model in models}
    lines = ", ".join(
        f"{model} {value:.3f}" for model, value in sorted(better.items(), key=lambda one: one[1])
    )
    holds = "aligns better than" if max(better.values()) < error else "does not always beat"
    return f"{table(head, rows)}\n\nFinding: AER of {lines}; attention {holds} the diagonal ({error:.3f})."


def draw(records: Sequence[Record], picture: Figure) -> None:
    axes = picture.subplots()
    models = [model for model in MODELS if model in cases_of(records, "model")]
    for shift, name, label in (
        (-0.2, "agreement", "words choose each other"),
        (0.2, "largest", "largest weight"),
    ):
        found = [values(records, name, model=model) for model in models]
        at = [number + shift for number in range(len(models))]
        around = [spread(one) for one in found]
        axes.bar(at, [mean(one) for one in found], 0.4, yerr=around, capsize=3, label=label)
    axes.axhline(values(records, "diagonal")[0], color="gray", linestyle=":", label=DIAGONAL)
    axes.set_xticks(range(len(models)), models)
    axes.set_ylabel("alignment error rate")
    axes.legend()


CLAIM = Claim(
    "alignment",
    "The lectures: attention is a type of alignment between related words; encoder-decoder attention helps "
    "to align the input and output sequences.",
    cases,
    measure,
    report,
    draw,
)

if __name__ == "__main__":
    main(CLAIM)
