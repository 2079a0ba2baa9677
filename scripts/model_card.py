"""Makes a trained run the model in the box: measured, rounded to int8, described, and put into the package.

    clearhead train recipes/translation/en-de-fr.toml --out runs/en-de-fr
    python scripts/model_card.py runs/en-de-fr

What its card tells (model_card.md, filled in) is measured here on sentences kept from training, and its
examples are chosen by rule. `--into` writes elsewhere.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.chrf import CHRF

from clearhead.checkpoint import CARD, SETTINGS
from clearhead.config import read_settings
from clearhead.data.datasets import SHIPPED
from clearhead.tasks.export import export_int8
from clearhead.tasks.load import load_for
from clearhead.tasks.records import TEST, add_final, read_metrics
from clearhead.tasks.translation.data import Corpus
from clearhead.tasks.translation.directions import Direction, file_name
from clearhead.tasks.translation.evaluate import Measured, held_out_pairs, measure, within_reach
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.zoo import BUILT_IN
from clearhead.text.languages import NAMES

TEMPLATE = Path(__file__).with_name("model_card.md")
MOST_BYTES = 14_000_000
SHOWN, LONGER = 3, 8
# What has a capital inside a sentence; where all nouns have one, a name that follows a title.
NAME = {
    "en": r"(?<=[a-z,] )(?!I\b|Tom\b|Mary\b)[A-Z][a-z]+",
    "fr": r"(?<=[a-z,] )(?!Tom\b|Mar[iy]e?\b)[A-Z][a-zé]+",
    "de": r"\b(Herrn?|Frau|Dr\.|Professor) [A-Z]\w+",
}
# Fixed before any model was asked; what comes out is shown as it is.
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
    """A sentence, what the model makes of it, what a person made of it, and how near the two are."""

    source: str
    translation: str
    reference: str
    chrf: float


@dataclass(frozen=True)
class Tested:
    """How one direction does."""

    direction: Direction
    whole: Measured
    """before rounding"""
    rounded: Measured
    met: int
    """sources that are in the training part too"""
    unmet: Measured
    """without those"""
    examples: list[Example]
    hard: list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a run and make it the model in the package.")
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument(
        "--into", type=Path, default=BUILT_IN["en-de-fr"], help="where the model goes; else into the package"
    )
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary) / "en-de-fr"
        pack(asked.run, made, asked.device)
        if (size := folder_size(made)) > MOST_BYTES:
            sys.exit(f"{size:,} bytes, more than the {MOST_BYTES:,} that a box may have")
        shutil.rmtree(asked.into, ignore_errors=True)
        shutil.copytree(made, asked.into)
    say(f"{asked.into}: {size:,} bytes")


def pack(run: Path, made: Path, device: str) -> None:
    """Everything that belongs into the box, in a new folder."""
    recipe = read_settings(TranslationRecipe, run / SETTINGS)
    directions = recipe.data.directions
    export_int8(run, made)
    for direction in directions:
        name = file_name("test", direction, directions)
        shutil.copyfile(run / name, made / name)
    whole, rounded = (load_for("translation", folder, device) for folder in (run, made))
    trained = Corpus(recipe.data, recipe.training.seed).by_direction("train")
    tested = []
    for direction in directions:
        met = {pair.source.casefold() for pair in trained[direction]}
        tested.append(test(whole, rounded, made, direction, met))
        say(f"{direction}: {tested[-1].rounded.scores[0]}")
    bleu = {str(one.direction): one.rounded.scores[0].value for one in tested}
    add_final(made, last_step(recipe, run), bleu, TEST)
    (made / CARD).write_text(card(recipe, run, made, rounded, tested), encoding="utf-8")


def last_step(recipe: TranslationRecipe, run: Path) -> int:
    return max((line["step"] for line in read_metrics(run)), default=recipe.training.steps)


def test(
    whole: TranslationModel, rounded: TranslationModel, folder: Path, direction: Direction, trained: set[str]
) -> Tested:
    """Both forms of the model on the sentences kept for a direction."""
    pairs = held_out_pairs(None, folder, direction).pairs
    sources = [pair.source for pair in pairs]
    before, after = (translated(model, sources, direction) for model in (whole, rounded))
    fresh = [place for place, source in enumerate(sources) if source.casefold() not in trained]
    near = CHRF()
    examples = [
        Example(source, text, reference, near.sentence_score(text, [reference]).score)
        for (source, reference), text in zip(pairs, after, strict=True)
    ]
    hard = HARD.get(direction.source, [])
    return Tested(
        direction,
        measure(pairs, before, direction.target),
        measure(pairs, after, direction.target),
        len(pairs) - len(fresh),
        measure([pairs[place] for place in fresh], [after[place] for place in fresh], direction.target),
        examples,
        list(zip(hard, translated(rounded, hard, direction), strict=True)),
    )


def translated(model: TranslationModel, sources: Sequence[str], direction: Direction) -> list[str]:
    return [str(one) for one in model.stream(within_reach(model, sources), to=direction.target)]


def card(
    recipe: TranslationRecipe, run: Path, folder: Path, model: TranslationModel, tested: list[Tested]
) -> str:
    """The template with everything filled in."""
    data, shape = recipe.data, recipe.model
    files = dict.fromkeys(str(file) for corpus in data.corpora for file in corpus.train)
    signatures = {score.name: score.signature for score in tested[0].rounded.scores}
    return TEMPLATE.read_text(encoding="utf-8").format(
        others=" and ".join(NAMES[code] for code in data.languages if code != "en"),
        names=", ".join(f"`{direction}`" for direction in data.directions),
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        megabytes=folder_size(folder) / 1e6,
        sentences=tested[0].rounded.sentences,
        beam=recipe.search.beam,
        scores=scores(tested),
        bleu=signatures["BLEU"],
        chrf=signatures["chrF2"],
        whole=", ".join(f"{one.whole.scores[0].value:.2f} ({one.direction})" for one in tested),
        lengths=lengths(tested),
        examples="\n\n".join(map(examples, tested)),
        data="\n".join(f"- {name}: {described(name)}" for name in files),
        norm=shape.norm_position,
        width=shape.width,
        hidden=shape.hidden,
        encoder=shape.encoder_layers,
        decoder=shape.decoder_layers,
        heads=shape.attention.heads,
        dropout=shape.dropout,
        kind=recipe.tokenizer.kind,
        vocabulary=recipe.tokenizer.vocabulary,
        steps=last_step(recipe, run),
        seed=recipe.training.seed,
    )


def scores(tested: list[Tested]) -> str:
    rows = []
    for one in tested:
        values = {score.name: score.value for score in one.rounded.scores}
        rows.append(
            (one.direction, values["BLEU"], values["chrF2"], f"{one.met:,}", one.unmet.scores[0].value)
        )
    return table(("direction", "BLEU", "chrF", "sources met in training", "BLEU without them"), rows)


def lengths(tested: list[Tested]) -> str:
    rows = [
        (one.direction, row.label, f"{row.sentences:,}", row.bleu, row.chrf)
        for one in tested
        for row in one.rounded.by_length
    ]
    return table(("direction", "words", "sentences", "BLEU", "chrF"), rows)


def examples(one: Tested) -> str:
    """Best and worst by chrF, and those that hold what is hard."""
    longer = [each for each in one.examples if len(each.source.split()) >= LONGER]
    picked = {
        f"Nearest to the reference, of at least {LONGER} words": first(longer, lambda each: -each.chrf),
        f"Farthest from it, of at least {LONGER} words": first(longer, lambda each: each.chrf),
        "Farthest from it, of any length": first(one.examples, lambda each: each.chrf),
        "Longest": first(one.examples, lambda each: -len(each.source)),
        "With a number, the first in the file": holding(one.examples, r"\d"),
        "With a name, a day or a language, the first in the file": holding(
            one.examples, NAME[one.direction.source]
        ),
    }
    lines = [f"### {NAMES[one.direction.source]} to {NAMES[one.direction.target]}"]
    for rule, some in picked.items():
        lines += ["", f"{rule}:", ""] if some else []
        lines += [
            f"- {each.source}<br>→ {each.translation}<br>(a person: {each.reference}; chrF {each.chrf:.0f})"
            for each in some
        ]
    lines += ["", "Not of the test, fixed beforehand: idioms, names, numbers, rare words:", ""]
    lines += [f"- {source}<br>→ {translation}" for source, translation in one.hard]
    return "\n".join(lines)


def first(some: list[Example], key: Callable[[Example], float]) -> list[Example]:
    return sorted(some, key=key)[:SHOWN]


def holding(some: list[Example], pattern: str) -> list[Example]:
    return [each for each in some if re.search(pattern, each.source)][:SHOWN]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """In Markdown, numbers with one decimal."""
    shown = [[f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *shown])


def described(name: str) -> str:
    return f"{SHIPPED[name].description} ({SHIPPED[name].licence})" if name in SHIPPED else "of one's own"


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
