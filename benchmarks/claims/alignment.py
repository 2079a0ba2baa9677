"""The claim: attention aligns words; the alignment error of additive attention and of cross-attention.

    CLEARHEAD_DATA=FOLDER python -m benchmarks.claims.alignment --device cuda --processes 6 [--tiny]

Translators trained on the shipped Tatoeba pairs (English-French), as they are or joined to 10 to 60 words,
read the 447 Hansards of WPT 2003 with their translations; nothing is trained for alignment. The head is
chosen without gold, as the one in which words choose each other most (see benchmarks/alignment.py). The
folder holds word-alignment/word-alignment-gold.tar.xz.
"""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.claims.claim import (
    Claim,
    Options,
    Record,
    cases_of,
    is_of,
    main,
    mean,
    spread,
    table,
    text,
    values,
)
from benchmarks.claims.lengths import TRAINING as JOINED
from benchmarks.claims.lengths import TRANSFORMER, data
from benchmarks.claims.translators import (
    TINY,
    Corpus,
    Training,
    data_folder,
    recurrent,
    score,
    tatoeba,
    trained,
)
from benchmarks.hansards import HANSARDS, read_hansards
from matplotlib.figure import Figure

from clearhead.evaluation.alignment import AlignedPair, Link, alignment_score
from clearhead.inspection.alignment import Aligner, merge_words
from clearhead.tasks.translation.alignment import CapturedPair, best_aligners, capture_pairs

MODELS: dict[str, dict[str, Any]] = {
    "additive attention": recurrent("gru", width=384),
    "cross-attention": TRANSFORMER,
}
TRAININGS: dict[str, tuple[Callable[[str, bool], Corpus], Training]] = {
    "sentences": (tatoeba, Training(steps=2500)),
    "joined": (lambda language, tiny: data(language, tiny)[0], JOINED),
}
"""Single pairs are short enough to be translated without alignment; joined ones are not."""
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
    return [
        {"model": name, "training": training, "seed": seed}
        for seed in options.seeds
        for training in TRAININGS
        for name in MODELS
    ]


def measure(options: Options, case: Record) -> Record:
    settings = MODELS[case["model"]] | ({"width": 32} if options.tiny else {})
    make, training = TRAININGS[case["training"]]
    corpus = make("fr", options.tiny)
    model = trained(corpus, settings, TINY if options.tiny else training, options, case["seed"])
    gold = read_hansards(data_folder() / HANSARDS)[: 5 if options.tiny else None]
    captured = list(capture_pairs(model, [(pair.source, pair.target) for pair in gold]))
    best = best_aligners(captured)[0]
    agreed = alignment_score([pair.links(best) for pair in captured], gold)
    return {
        "bleu": score(model, tatoeba("fr", options.tiny).test),
        "agreement": agreed.error_rate,
        "precision": agreed.precision,
        "recall": agreed.recall,
        "largest": alignment_score([largest(pair, best) for pair in captured], gold).error_rate,
        "diagonal": alignment_score([diagonal(pair) for pair in gold], gold).error_rate,
        "head": f"layer {best.layer}, head {best.head}, {'input' if best.reads else 'predicted'} word",
    }


def report(records: Sequence[Record]) -> str:
    rows, found = [], {}
    for training in cases_of(records, "training"):
        for model in (model for model in MODELS if values(records, "bleu", model=model, training=training)):
            case = {"model": model, "training": training}
            measured = [
                text(values(records, name, **case), ".3f")
                for name in ("agreement", "precision", "recall", "largest")
            ]
            heads = ", ".join(cases_of([one for one in records if is_of(one, case)], "head"))
            rows.append([model, training, text(values(records, "bleu", **case)), *measured, heads])
            found[f"{model}, {training}"] = mean(values(records, "agreement", **case))
    error = values(records, "diagonal")[0]
    rows.append([DIAGONAL, "–", "–", f"{error:.3f}", "–", "–", f"{error:.3f}", "–"])
    head = [
        "",
        "trained on",
        "BLEU, Tatoeba",
        "AER",
        "precision",
        "recall",
        "AER, largest weight only",
        "head",
    ]
    better = ", ".join(name for name, value in found.items() if value < error) or "none"
    worse = ", ".join(name for name, value in found.items() if value >= error) or "none"
    finding = f"Finding: better than the diagonal (AER {error:.3f}): {better}; not better: {worse}."
    return f"{table(head, rows)}\n\n{finding}"


def draw(records: Sequence[Record], picture: Figure) -> None:
    axes = picture.subplots()
    cases = [
        {"model": model, "training": training}
        for training in cases_of(records, "training")
        for model in MODELS
    ]
    for shift, name, label in (
        (-0.2, "agreement", "words choose each other"),
        (0.2, "largest", "largest weight"),
    ):
        found = [values(records, name, **case) for case in cases]
        at = [number + shift for number in range(len(cases))]
        around = [spread(one) for one in found]
        axes.bar(at, [mean(one) for one in found], 0.4, yerr=around, capsize=3, label=label)
    axes.axhline(values(records, "diagonal")[0], color="gray", linestyle=":", label=DIAGONAL)
    axes.set_xticks(range(len(cases)), [f"{case['model']},\n{case['training']}" for case in cases])
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
