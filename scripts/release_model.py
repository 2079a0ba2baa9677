"""Turns a run, or the best of several, into the built-in model: quantized, measured and described.

    python scripts/release_model.py runs/en-de-fr
    python scripts/release_model.py runs/en-de-fr runs/en-de-fr-2    (the better one on validation data)

Runs that started from the same model also compete with the average of their weights ("model soup", Wortsman
et al. 2022). scripts/built_in_translator makes the runs and calls this script.

The card is release_model.md, filled in with scores on held-out sentences and with examples chosen by rule.
`--out` writes to another folder.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrases import Phrase, plain, translate_phrases
from sacrebleu.metrics.chrf import CHRF

from clearhead.checkpoint import CARD, SETTINGS, WEIGHTS, save_weights
from clearhead.config import read_settings
from clearhead.data.datasets import SHIPPED
from clearhead.evaluation.bleu import bleu
from clearhead.tasks.export import export_int8
from clearhead.tasks.load import load_for
from clearhead.tasks.records import METRICS, TEST, add_final, read_metrics
from clearhead.tasks.translation import evaluate
from clearhead.tasks.translation.data import Corpus
from clearhead.tasks.translation.directions import Direction, file_name
from clearhead.tasks.translation.evaluate import EvaluationReport
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.zoo import BUILT_IN
from clearhead.text.languages import NAMES
from clearhead.training.averaging import average_weights

TEACHER = Path(__file__).parents[1] / "recipes/translation/en-de-fr-teacher.toml"
# Part of the paths of files with the teachers' translations.
DISTILLED = "distilled"
TEMPLATE = Path(__file__).with_name("release_model.md")
MAX_BYTES = 14_000_000
AVERAGE = "average"
SEVERAL_SEEDS = "with several seeds, whose weights were averaged (Wortsman et al. 2022)"
EXAMPLES, LONG = 3, 8
# A capitalised word inside a sentence; in German, where all nouns are capitalised, a name after a title.
PROPER_NAME = {
    "en": r"(?<=[a-z,] )(?!I\b|Tom\b|Mary\b)[A-Z][a-z]+",
    "fr": r"(?<=[a-z,] )(?!Tom\b|Mar[iy]e?\b)[A-Z][a-zé]+",
    "de": r"\b(Herrn?|Frau|Dr\.|Professor) [A-Z]\w+",
}
# Fixed before any model was tried.
HARD = {
    "en": [
        "It's raining cats and dogs.",
        "He kicked the bucket last week.",
        "You can't have your cake and eat it.",
        "Flight LH 438 leaves at 6:45 p.m. from gate B17.",
        "Dr. Angela Okonkwo lives at 221b Baker Street.",
        "The mitochondrion is the powerhouse of the cell.",
    ],
    "de": [
        "Ich verstehe nur Bahnhof.",
        "Da liegt der Hund begraben.",
        "Die Donaudampfschifffahrtsgesellschaft hat am 3.10.1990 Konkurs angemeldet.",
    ],
    "fr": [
        "Il pleut des cordes.",
        "Elle a posé un lapin à Jean-Baptiste.",
        "Le rendez-vous est fixé au 14 juillet 2031 à 18 h 30.",
    ],
}


@dataclass(frozen=True)
class Example:
    """A test sentence, its translation and reference, and how close those two are."""

    source: str
    translation: str
    reference: str
    chrf: float


@dataclass(frozen=True)
class DirectionReport:
    """Everything that the card shows of one direction."""

    direction: Direction
    unquantized: EvaluationReport
    quantized: EvaluationReport
    seen: int
    """Test sources that occur in training."""
    unseen: EvaluationReport
    """Scores without those."""
    examples: list[Example]
    hard: list[tuple[str, str]]
    phrases: list[Phrase]
    """Everyday phrases with translations."""
    seen_phrases: list[Phrase]
    """Those of them that occur in training."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "runs", type=Path, nargs="+", help="folders of finished runs: the one with the best validation BLEU"
    )
    parser.add_argument(
        "--out", type=Path, default=BUILT_IN["en-de-fr"], help="folder of the model; default: in the package"
    )
    parser.add_argument("--note", default="", help="a sentence for the card on how the model was trained")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        runs = [*options.runs, *average(options.runs, Path(temporary))]
        model = Path(temporary) / "en-de-fr"
        chosen = best(runs, options.device) if len(runs) > 1 else runs[0]
        build(chosen, model, options.device, options.note)
        if (size := folder_size(model)) > MAX_BYTES:
            sys.exit(f"{size:,} bytes; a built-in model may have {MAX_BYTES:,}")
        shutil.rmtree(options.out, ignore_errors=True)
        shutil.copytree(model, options.out)
    say(f"{options.out}: {size:,} bytes")


def average(runs: Sequence[Path], folder: Path) -> Iterator[Path]:
    """The average of runs that started from one model, as a run of its own."""
    starts = {read_settings(TranslationRecipe, run / SETTINGS).training.init_from for run in runs}
    if len(runs) > 1 and len(starts) == 1 and starts != {None}:
        mean = folder / AVERAGE
        shutil.copytree(runs[0], mean, ignore=shutil.ignore_patterns("training", METRICS))
        save_weights(average_weights([run / WEIGHTS for run in runs]), mean / WEIGHTS)
        yield mean


def best(runs: Sequence[Path], device: str) -> Path:
    """The run with the highest BLEU on the validation sentences, as a mean of all directions."""
    found = {}
    for run in runs:
        model = load_for("translation", run, device)
        scores = []
        for direction in model.directions:
            pairs = evaluate.held_out_pairs(
                run / file_name("validation", direction, model.directions), run, direction, (0, 1)
            ).pairs
            texts = translated(model, [pair.source for pair in pairs], direction)
            scores.append(bleu(texts, [pair.target for pair in pairs], direction.target).value)
        found[run] = sum(scores) / len(scores)
        say(f"{run}: validation BLEU {found[run]:.2f} ({', '.join(f'{score:.2f}' for score in scores)})")
    return max(runs, key=found.__getitem__)


def build(run: Path, out: Path, device: str, note: str) -> None:
    """Write the quantized model with its test sentences, scores and card."""
    recipe = read_settings(TranslationRecipe, run / SETTINGS)
    directions = recipe.data.directions
    export_int8(run, out)
    # A run names its files by absolute paths; in the package, they start from the project's folder.
    settings = (out / SETTINGS).read_text(encoding="utf-8").replace(f'"{Path.cwd()}/', '"')
    # The folder of an earlier version is where this one will be.
    settings = re.sub(r"^init_from = .*\n", "", settings, flags=re.MULTILINE)
    (out / SETTINGS).write_text(settings, encoding="utf-8")
    for direction in directions:
        name = file_name("test", direction, directions)
        shutil.copyfile(run / name, out / name)
    unquantized, quantized = (load_for("translation", folder, device) for folder in (run, out))
    training = Corpus(recipe.data, recipe.training.seed).by_direction("train")
    reports = []
    for direction in directions:
        sources = {pair.source for pair in training[direction]}
        reports.append(direction_report(unquantized, quantized, out, direction, sources))
        say(f"{direction}: {reports[-1].quantized.scores[0]}")
    measured = {str(report.direction): report.quantized.scores[0].value for report in reports}
    add_final(out, last_step(recipe, run), measured, TEST)
    (out / CARD).write_text(card(recipe, run, out, quantized, reports, note), encoding="utf-8")


def last_step(recipe: TranslationRecipe, run: Path) -> int:
    return max((line["step"] for line in read_metrics(run)), default=recipe.training.steps)


def direction_report(
    unquantized: TranslationModel,
    quantized: TranslationModel,
    folder: Path,
    direction: Direction,
    training_sources: set[str],
) -> DirectionReport:
    """Both models on the held-out sentences of one direction."""
    pairs = evaluate.held_out_pairs(None, folder, direction).pairs
    sources = [pair.source for pair in pairs]
    before, after = (translated(model, sources, direction) for model in (unquantized, quantized))
    trained = {source.casefold() for source in training_sources}
    fresh = [row for row, source in enumerate(sources) if source.casefold() not in trained]
    chrf = CHRF()
    examples = [
        Example(source, text, reference, chrf.sentence_score(text, [reference]).score)
        for (source, reference), text in zip(pairs, after, strict=True)
    ]
    hard = HARD.get(direction.source, [])
    phrases, known = translate_phrases(quantized, direction), set(map(plain, training_sources))
    return DirectionReport(
        direction,
        evaluate.scored(pairs, before, direction.target),
        evaluate.scored(pairs, after, direction.target),
        len(pairs) - len(fresh),
        evaluate.scored([pairs[row] for row in fresh], [after[row] for row in fresh], direction.target),
        examples,
        list(zip(hard, translated(quantized, hard, direction), strict=True)),
        phrases,
        [phrase for phrase in phrases if plain(phrase.source) in known],
    )


def translated(model: TranslationModel, sources: Sequence[str], direction: Direction) -> list[str]:
    return [str(one) for one in model.translations(sources, to=direction.target)]


def card(
    recipe: TranslationRecipe,
    run: Path,
    folder: Path,
    model: TranslationModel,
    reports: list[DirectionReport],
    note: str,
) -> str:
    """The template, filled in."""
    data, shape = recipe.data, recipe.model
    files = dict.fromkeys(str(file) for corpus in data.corpora for file in corpus.train)
    signatures = {score.name: score.signature for score in reports[0].quantized.scores}
    unquantized = {str(report.direction): report.unquantized.scores[0].value for report in reports}
    return TEMPLATE.read_text(encoding="utf-8").format(
        others=" or ".join(NAMES[code] for code in data.languages if code != "en"),
        names=", ".join(f"`{direction}`" for direction in data.directions),
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        megabytes=folder_size(folder) / 1e6,
        sentences=reports[0].quantized.sentences,
        beam=recipe.search.beam,
        scores=scores(reports),
        bleu=signatures["BLEU"],
        chrf=signatures["chrF2"],
        unquantized=", ".join(f"{value:.2f} ({direction})" for direction, value in unquantized.items()),
        lengths=lengths(reports),
        phrases=phrases(reports),
        examples="\n\n".join(map(examples, reports)),
        data="\n".join(f"- {name}: {description(name)}" for name in files if name in SHIPPED),
        teacher=teacher(recipe) + (f"{note}\n\n" if note else ""),
        norm=shape.norm_position,
        width=shape.width,
        ffn_width=shape.ffn_width,
        encoder=shape.encoder_layers,
        decoder=shape.decoder_layers,
        heads=shape.attention.heads,
        dropout=shape.dropout,
        kind=recipe.tokenizer.kind,
        vocabulary=recipe.tokenizer.vocabulary,
        steps=last_step(recipe, run),
        seeds=SEVERAL_SEEDS if run.name == AVERAGE else f"with seed {recipe.training.seed}",
        copying=recipe.training.copying,
    )


def scores(reports: list[DirectionReport]) -> str:
    rows = []
    for report in reports:
        values = {score.name: score.value for score in report.quantized.scores}
        unseen = report.unseen.scores[0].value
        rows.append((report.direction, values["BLEU"], values["chrF2"], f"{report.seen:,}", unseen))
    return table(("direction", "BLEU", "chrF", "sources seen in training", "BLEU without them"), rows)


def phrases(reports: list[DirectionReport]) -> str:
    rows = []
    for report in reports:
        seen, right = report.seen_phrases, sum(phrase.right for phrase in report.phrases)
        remembered = sum(phrase.right for phrase in seen)
        new = len(report.phrases) - len(seen)
        counts = f"{right} of {len(report.phrases)}", f"{remembered} of {len(seen)}"
        rows.append((report.direction, *counts, f"{right - remembered} of {new}"))
    return table(("direction", "right", "of those in training", "of the others"), rows)


def teacher(recipe: TranslationRecipe) -> str:
    """What the model learned from, if it had teachers, and where it started."""
    text = ""
    if any(DISTILLED in str(file) for corpus in recipe.data.corpora for file in corpus.train):
        shape = read_settings(TranslationRecipe, TEACHER).model
        layers = f"{shape.encoder_layers} encoder and {shape.decoder_layers} decoder layers"
        tokens = ", and from the\nprobabilities of one teacher at each token"
        beside = f"the human ones{tokens if recipe.training.distillation else ''}"
        text = (
            f"Two teachers of width {shape.width} with {layers}, trained on the same pairs with\n"
            "different seeds, translated the training sentences together. Where people had translated a\n"
            "sentence, the hypothesis closest to theirs was kept (Kim and Rush 2016). The model learned\n"
            f"from these translations beside {beside}.\n\n"
        )
    if recipe.training.init_from:
        text += "Its weights were initialized from an earlier version.\n\n"
    return text


def lengths(reports: list[DirectionReport]) -> str:
    rows = [
        (report.direction, row.label, f"{row.sentences:,}", row.bleu, row.chrf)
        for report in reports
        for row in report.quantized.by_length
    ]
    return table(("direction", "words", "sentences", "BLEU", "chrF"), rows)


def examples(report: DirectionReport) -> str:
    """The best and worst translations by chrF, and those of difficult sources."""
    long = [one for one in report.examples if len(one.source.split()) >= LONG]
    proper_name = PROPER_NAME[report.direction.source]
    chosen = {
        f"Closest to the reference, {LONG} words or more": first(long, lambda one: -one.chrf),
        f"Furthest from the reference, {LONG} words or more": first(long, lambda one: one.chrf),
        "Furthest from the reference, any length": first(report.examples, lambda one: one.chrf),
        "Longest": first(report.examples, lambda one: -len(one.source)),
        "First in the file with a number": matching(report.examples, r"\d"),
        "First in the file with a name, a weekday or a language": matching(report.examples, proper_name),
    }
    lines = [f"### {NAMES[report.direction.source]} to {NAMES[report.direction.target]}"]
    for rule, some in chosen.items():
        lines += ["", f"{rule}:", ""] if some else []
        lines += [
            f"- {one.source}<br>→ {one.translation}<br>(reference: {one.reference}; chrF {one.chrf:.0f})"
            for one in some
        ]
    lines += ["", "Not from the test set, fixed in advance: idioms, names, numbers, rare words:", ""]
    lines += [f"- {source}<br>→ {translation}" for source, translation in report.hard]
    return "\n".join(lines)


def first(some: list[Example], key: Callable[[Example], float]) -> list[Example]:
    return sorted(some, key=key)[:EXAMPLES]


def matching(some: list[Example], pattern: str) -> list[Example]:
    return [one for one in some if re.search(pattern, one.source)][:EXAMPLES]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; floats get one decimal."""
    shown = [[f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *shown])


def description(name: str) -> str:
    return f"{SHIPPED[name].description} ({SHIPPED[name].licence})"


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
