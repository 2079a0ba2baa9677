"""Everyday phrases: how many a translator gets right, and which it does not.

    python scripts/phrases.py                      (the built-in model)
    python scripts/phrases.py runs/mine --seen

`phrases/en-de.tsv` and its sisters hold 200 phrases of each direction with the translations that count as
right. `--seen` also counts the phrases that the model was trained on: these show what it remembers, the
others what it makes of new ones.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from clearhead.checkpoint import SETTINGS
from clearhead.config import read_settings
from clearhead.data.datasets import SHIPPED
from clearhead.tasks.load import load_for
from clearhead.tasks.translation.data import Corpus
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.zoo import BUILT_IN

FOLDER = Path(__file__).with_name("phrases")
QUOTES = str.maketrans("’‘“”„«»", '\'\'"""""')


@dataclass(frozen=True)
class Phrase:
    """A source, the pattern of its accepted translations, and the translation of a model."""

    source: str
    accepted: str
    translation: str

    @property
    def right(self) -> bool:
        return plain(self.translation) in map(plain, expand(self.accepted))


def read_phrases(direction: Direction) -> list[tuple[str, str]]:
    """The sources of a direction and the patterns of their translations."""
    lines = (FOLDER / f"{direction}.tsv").read_text(encoding="utf-8").splitlines()
    return [(source, accepted) for source, accepted in (line.split("\t") for line in lines)]


def expand(pattern: str) -> Iterator[str]:
    """The texts of a pattern: sentences separated by " / ", with choices such as (du|Sie|) in them."""
    for sentence in pattern.split(" / "):
        parts = re.split(r"\(([^()]*)\)", sentence)
        choices = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
        yield from (" ".join("".join(chosen).split()) for chosen in product(*choices))


def plain(text: str) -> str:
    """The text without what does not count: the kind of quote, spacing, and a final "!" for a "."."""
    text = " ".join(text.translate(QUOTES).split())
    return re.sub(r" (?=[.,;:?!])", "", text).rstrip(".!")


def translate_phrases(model: TranslationModel, direction: Direction) -> list[Phrase]:
    """All phrases of a direction with the model's translations."""
    phrases = read_phrases(direction)
    found = model.translations([source for source, _ in phrases], direction.target)
    return [Phrase(*phrase, str(one)) for phrase, one in zip(phrases, found, strict=True)]


def trained_sentences(folder: Path) -> dict[str, set[str]]:
    """The sentences of each language in the shipped corpora of a model, as phrases are compared.

    Corpora that a teacher translated have the same sources.
    """
    recipe = read_settings(TranslationRecipe, folder / SETTINGS)
    shipped = [corpus for corpus in recipe.data.corpora if all(file in SHIPPED for file in corpus.train)]
    data = recipe.data.model_copy(update={"corpora": tuple(shipped)})
    sentences: dict[str, set[str]] = {language: set() for language in data.languages}
    for direction, pairs in Corpus(data, recipe.training.seed).by_direction("train").items():
        sentences[direction.source].update(plain(pair.source) for pair in pairs)
    return sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="?", default="en-de-fr", help="name or folder; default: en-de-fr")
    parser.add_argument("--seen", action="store_true", help="count the phrases seen in training separately")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    model = load_for("translation", options.model, options.device)
    folder = BUILT_IN.get(options.model, Path(options.model))
    trained = trained_sentences(folder) if options.seen else {}
    for direction in model.directions:
        phrases = translate_phrases(model, direction)
        wrong = [phrase for phrase in phrases if not phrase.right]
        say(f"{direction}: {len(phrases) - len(wrong)} of {len(phrases)} right")
        if trained:
            seen = [phrase for phrase in phrases if plain(phrase.source) in trained[direction.source]]
            right = sum(phrase.right for phrase in seen)
            new = len(phrases) - len(seen)
            say(
                f"  {right} of {len(seen)} seen in training, {len(phrases) - len(wrong) - right} of {new} new"
            )
        for phrase in wrong:
            say(f"  {phrase.source} -> {phrase.translation}    ({next(expand(phrase.accepted))})")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
