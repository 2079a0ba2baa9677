"""The claim: many heads beat one at equal width, and depth helps: the paper's table 3 at small scale.

    python -m benchmarks.claims.table3 --device cuda --processes 12 [--tiny]

English-German on the shipped Tatoeba pairs, 1,000 test pairs, greedy. Rows as in Vaswani et al. 2017, table
3, with the model at about a quarter of its width and half of its depth: (A) heads at equal width, (B) the
size of a head, which here is that of its values too, (C) depth, width and feed-forward width, (D) dropout
and label smoothing, (E) learned positions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.claims.claim import Claim, Options, Record, cases_of, main, mean, spread, table, text, values
from benchmarks.claims.translators import TINY, Training, parameters, score, tatoeba, trained
from matplotlib.figure import Figure

BASE: dict[str, Any] = {
    "kind": "translator",
    "width": 128,
    "ffn_width": 512,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "attention": {"heads": 4},
    "norm_position": "pre",
    "dropout": 0.1,
    "max_length": 128,
}
SMOOTHING = 0.1


def heads(count: int, size: int | None = None) -> dict[str, Any]:
    return {"attention": {"heads": count} | ({"head_size": size} if size else {})}


def layers(count: int) -> dict[str, Any]:
    return {"encoder_layers": count, "decoder_layers": count}


SMALL = {"width": 32, "ffn_width": 32, **layers(1)}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("", {}),
    "1 head": ("A", heads(1)),
    **{f"{count} heads": ("A", heads(count)) for count in (2, 8, 16)},
    **{f"head size {size}": ("B", heads(4, size)) for size in (8, 16)},
    **{f"{count} + {count} layers": ("C", layers(count)) for count in (1, 2, 4, 5, 6)},
    "width 64": ("C", {"width": 64}),
    "width 256": ("C", {"width": 256}),
    "ffn_width 256": ("C", {"ffn_width": 256}),
    "ffn_width 1024": ("C", {"ffn_width": 1024}),
    "dropout 0": ("D", {"dropout": 0.0}),
    "dropout 0.2": ("D", {"dropout": 0.2}),
    "label smoothing 0": ("D", {}),
    "label smoothing 0.2": ("D", {}),
    "learned positions": ("E", {"position": "learned"}),
}
"""Row -> its letter in the paper, and how it differs from the base."""
DEPTHS = {count: "base" if count == 3 else f"{count} + {count} layers" for count in range(1, 7)}


def cases(options: Options) -> list[Record]:
    rows = ("base", "1 head", "label smoothing 0") if options.tiny else ROWS
    return [{"row": row, "seed": seed} for seed in options.seeds for row in rows]


def measure(options: Options, case: Record) -> Record:
    corpus = tatoeba("de", options.tiny)
    row = case["row"]
    smoothing = float(row.removeprefix("label smoothing ")) if "smoothing" in row else SMOOTHING
    training = replace(
        TINY if options.tiny else Training(steps=1500, learning_rate=2e-3), label_smoothing=smoothing
    )
    settings = BASE | ROWS[row][1] | (SMALL if options.tiny else {})
    model = trained(corpus, settings, training, options, case["seed"])
    return {"parameters": parameters(model), "bleu": score(model, corpus.test)}


def report(records: Sequence[Record]) -> str:
    names = [row for row in ROWS if row in cases_of(records, "row")]
    base = mean(values(records, "bleu", row="base"))
    rows = []
    for name in names:
        found = values(records, "bleu", row=name)
        size = values(records, "parameters", row=name)[0]
        rows.append([ROWS[name][0], name, f"{size / 1e6:.2f} M", text(found), f"{mean(found) - base:+.1f}"])
    return table(["row", "", "parameters", "BLEU", "against the base"], rows) + "\n\n" + finding(records)


def finding(records: Sequence[Record]) -> str:
    """What the rows say, as far as they were measured."""

    def against(name: str, other: str) -> float:
        return mean(values(records, "bleu", row=name)) - mean(values(records, "bleu", row=other))

    rows = cases_of(records, "row")
    noise = max(spread(values(records, "bleu", row=row)) for row in rows)
    lines = [f"Finding ({len(rows)} of {len(ROWS)} rows; largest standard deviation of a row {noise:.1f}):"]
    if "1 head" in rows:
        several = against("base", "1 head")
        lines.append(f"4 heads are {several:+.1f} BLEU against one at equal width (paper, 8 heads: +0.9).")
    if "learned positions" in rows:
        learned = against("learned positions", "base")
        lines.append(f"Learned positions are {learned:+.1f} BLEU against sinusoids (paper: -0.1).")
    depths = {count: values(records, "bleu", row=row) for count, row in DEPTHS.items()}
    by_depth = ", ".join(f"{count}: {text(one)}" for count, one in depths.items() if one)
    lines.append(f"BLEU by depth: {by_depth}.")
    return "\n".join(lines)


def draw(records: Sequence[Record], picture: Figure) -> None:
    left, right = picture.subplots(1, 2, width_ratios=(3, 1))
    names = [row for row in ROWS if row in cases_of(records, "row")]
    found = [values(records, "bleu", row=name) for name in names]
    left.errorbar(
        range(len(names)), [mean(one) for one in found], [spread(one) for one in found], fmt="o", capsize=2
    )
    left.axhline(mean(values(records, "bleu", row="base")), color="gray", linestyle=":", linewidth=1)
    labels = [f"{ROWS[name][0]} {name}".strip() for name in names]
    left.set_xticks(range(len(names)), labels, rotation=60, ha="right", fontsize="x-small")
    left.set_ylabel("BLEU")
    depths = {count: values(records, "bleu", row=row) for count, row in DEPTHS.items()}
    kept = {count: found for count, found in depths.items() if found}
    around = [spread(one) for one in kept.values()]
    right.errorbar(list(kept), [mean(one) for one in kept.values()], around, marker="o", capsize=2)
    right.set(xlabel="layers of encoder and decoder", ylabel="BLEU")


CLAIM = Claim(
    "table3",
    "The lectures: multi-head attention lets the model attend to different parts of the sequence "
    "differently, and stacking encoder and decoder blocks is why Transformers work.",
    cases,
    measure,
    report,
    draw,
)

if __name__ == "__main__":
    main(CLAIM)
