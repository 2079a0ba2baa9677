"""The six scores of attention on one task, in a recurrent translator and in a Transformer.

    python -m benchmarks.claims.scores --device cuda --processes 12 [--tiny]

English-German on the shipped Tatoeba pairs, 1,000 test pairs, greedy. All six go through the same attention;
in the Transformer each is the score of all attentions.
"""

from collections.abc import Sequence

from benchmarks.claims.claim import Claim, Options, Record, cases_of, main, mean, spread, table, text, values
from benchmarks.claims.table3 import BASE, SMALL
from benchmarks.claims.translators import TINY, Training, parameters, recurrent, score, tatoeba, trained
from matplotlib.figure import Figure

from clearhead.layers.scores import SCORES

FAMILIES = ("recurrent", "Transformer")


def cases(options: Options) -> list[Record]:
    scores = ("additive", "location") if options.tiny else SCORES
    return [
        {"family": family, "score": one, "seed": seed}
        for seed in options.seeds
        for family in FAMILIES
        for one in scores
    ]


def measure(options: Options, case: Record) -> Record:
    corpus = tatoeba("de", options.tiny)
    if case["family"] == "recurrent":
        attention = {"score": case["score"]}
        settings = recurrent("gru", width=32 if options.tiny else 256, attention=attention)
    else:
        attention = {"heads": 4, "score": case["score"]}
        settings = BASE | {"attention": attention} | (SMALL if options.tiny else {})
    rate = 1e-3 if case["family"] == "recurrent" else 2e-3
    training = TINY if options.tiny else Training(steps=1500, learning_rate=rate)
    model = trained(corpus, settings, training, options, case["seed"])
    return {"parameters": parameters(model), "bleu": score(model, corpus.test)}


def report(records: Sequence[Record]) -> str:
    names = [name for name in SCORES if name in cases_of(records, "score")]
    rows = [
        [name, *(text(values(records, "bleu", family=family, score=name)) for family in FAMILIES)]
        for name in names
    ]
    lines = [table(["BLEU", *FAMILIES], rows)]
    for family in FAMILIES:
        found = {name: mean(values(records, "bleu", family=family, score=name)) for name in names}
        order = sorted(found, key=lambda name: -found[name])
        noise = max(spread(values(records, "bleu", family=family, score=name)) for name in names)
        without = [found[name] for name in names if name != "location"]
        lines.append(
            f"Finding, {family}: {' > '.join(order)}; without location they differ by "
            f"{max(without) - min(without):.1f} BLEU (largest standard deviation {noise:.1f})."
        )
    return "\n\n".join([lines[0], "\n".join(lines[1:])])


def draw(records: Sequence[Record], picture: Figure) -> None:
    names = [name for name in SCORES if name in cases_of(records, "score")]
    axes = picture.subplots()
    for shift, family in ((-0.2, FAMILIES[0]), (0.2, FAMILIES[1])):
        found = [values(records, "bleu", family=family, score=name) for name in names]
        at = [number + shift for number in range(len(names))]
        around = [spread(one) for one in found]
        axes.bar(at, [mean(one) for one in found], 0.4, yerr=around, capsize=3, label=family)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("BLEU")
    axes.legend(loc="lower right")


CLAIM = Claim(
    "scores",
    "The lectures: there are several ways to compute attention scores: content-based (cosine), additive, "
    "location-based, general, dot product, and scaled dot product, which is very similar to the dot "
    "product.",
    cases,
    measure,
    report,
    draw,
)

if __name__ == "__main__":
    main(CLAIM)
