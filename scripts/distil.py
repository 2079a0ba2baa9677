"""Translates the training sentences of a model with the model itself, for a smaller one to learn from.

    python scripts/distil.py runs/en-de-fr-teacher --out runs/en-de-fr-distilled --device cuda
    python scripts/distil.py runs/teacher-1 runs/teacher-2 --out runs/distilled       (by an ensemble)

Sequence-level knowledge distillation (Kim and Rush 2016): a student learns a teacher's translations more
easily than the many ways in which people translate. Every training sentence of a language is translated in
every direction of the teacher, also those that only another corpus has, which makes new pairs. Where people
have translated a sentence, the hypothesis of the beam that is closest to one of their translations is taken
("sequence-level interpolation" in the same paper).

For each direction, such as en-de, OUT gets `en-de.tsv.xz`, the sentences that had a translation before, and
`en-de.new.tsv.xz`, those that had none. Held-out sentences are left out. Several teachers with one tokenizer
translate together: each token is chosen by the mean of their probabilities.

Several processes can share a GPU: `--direction` translates one direction, `--share 2/3` the second third of
each, without joining the parts. Work done is kept in OUT/parts: run it again without a share after all shares
or after `--minutes`, when pairs of all lengths are in OUT, or if a process was killed.
"""

import argparse
import lzma
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.checkpoint import SETTINGS
from clearhead.config import read_settings
from clearhead.files import atomic_path
from clearhead.models import EncoderDecoder
from clearhead.tasks.load import load_for
from clearhead.tasks.translation.data import Corpus
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.search import Translation

PART = 8192
"""Sentences that are translated, and kept, at a time."""
References = Mapping[str, Collection[str]]
"""What people made of each sentence."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("teachers", type=Path, nargs="+", help="folders of trained translators")
    parser.add_argument("--out", type=Path, required=True, help="folder of the translated pairs")
    parser.add_argument("--direction", action="append", help="such as en-de; default: all")
    parser.add_argument(
        "--share", type=share, default=(1, 1), help="such as 2/3: the second third of the parts"
    )
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--most", type=int, help="sentences of each direction, to try it out")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    torch.set_float32_matmul_precision("high")
    sentences, references = training_sentences(options.teachers[0])
    model = load_ensemble(options.teachers, options.device)
    (options.out / "parts").mkdir(parents=True, exist_ok=True)
    unfinished = []
    for direction in model.directions:
        if options.direction and str(direction) not in options.direction:
            continue
        sources = list(sentences[direction.source])
        if options.most:
            sources = sources[:: -(-len(sources) // options.most)]
        parts = plan(sources, options.out / "parts", f"{direction}.{options.beam}")
        number, count = options.share
        for file, part in parts[number - 1 :: count]:
            if time.monotonic() < deadline:
                distil(model, direction, part, references[direction], options.beam, file)
        if count > 1:
            continue
        join(direction, options.out, references[direction], [file for file, _ in parts if file.exists()])
        if not all(file.exists() for file, _ in parts):
            unfinished.append(str(direction))
    if unfinished:
        names = ", ".join(unfinished)
        sys.exit(f"{names}: stopped after {options.minutes:g} minutes; run it again to go on")


def share(text: str) -> tuple[int, int]:
    """The share of the work that a text such as 2/3 names."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError
    return number, count


class EnsembleState:
    """The states of all models of an ensemble."""

    def __init__(self, states: list[Any]):
        self.states = states

    def select(self, rows: Tensor) -> None:
        for state in self.states:
            state.select(rows)


class Ensemble(nn.Module):
    """Translators that decode together; looks like one of them to a search."""

    def __init__(self, models: list[EncoderDecoder]):
        super().__init__()
        self.models = nn.ModuleList(models)
        self.config, self.readout_weight = models[0].config, models[0].readout_weight

    def start(self, source: Tensor, lengths: Tensor) -> EnsembleState:
        return EnsembleState([model.start(source, lengths) for model in self.models])  # pyright: ignore

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """The logarithm of the mean of all probabilities."""
        pairs = zip(self.models, state.states, strict=True)
        logs = torch.stack([model.step(tokens, one).log_softmax(-1) for model, one in pairs])  # pyright: ignore
        return logs.logsumexp(0) - math.log(len(logs))


def load_ensemble(folders: list[Path], device: str) -> TranslationModel:
    """The translator of one folder, or of several at once."""
    first, *others = (load_for("translation", folder, device) for folder in folders)
    for folder, other in zip(folders[1:], others, strict=True):
        if other.tokenizer.fingerprint != first.tokenizer.fingerprint:
            sys.exit(f"{folder}: its tokenizer differs from that of {folders[0]}")
    if not others:
        return first
    ensemble = Ensemble([first.model, *(other.model for other in others)])
    return TranslationModel(ensemble, first.tokenizer, first.directions, first.search)  # pyright: ignore


def training_sentences(
    folder: Path,
) -> tuple[dict[str, dict[str, None]], dict[Direction, dict[str, list[str]]]]:
    """The training sentences of each language, and the translations of each sentence in each direction."""
    recipe = read_settings(TranslationRecipe, folder / SETTINGS)
    pairs = Corpus(recipe.data, recipe.training.seed).by_direction("train")
    sentences: dict[str, dict[str, None]] = {}
    references: dict[Direction, dict[str, list[str]]] = {}
    for direction, some in pairs.items():
        sentences.setdefault(direction.source, {}).update(dict.fromkeys(pair.source for pair in some))
        found = references.setdefault(direction, {})
        for pair in some:
            found.setdefault(pair.source, []).append(pair.target)
    return sentences, references


def plan(sources: list[str], folder: Path, name: str) -> list[tuple[Path, list[str]]]:
    """The files of all parts and their sentences.

    Parts of sentences of similar length waste little; parts are named by what they contain. Their order is
    random, so that a run that is stopped early has sentences of all lengths.
    """
    sources = sorted(sources, key=len)
    parts = [
        (folder / f"{name}.{len(sources)}.{PART}.{first // PART:04d}.tsv", sources[first : first + PART])
        for first in range(0, len(sources), PART)
    ]
    return random.Random(1).sample(parts, len(parts))


def distil(
    model: TranslationModel,
    direction: Direction,
    sources: list[str],
    references: References,
    beam: int,
    file: Path,
) -> None:
    """Translates the sentences of a part, unless that was done before."""
    if file.exists():
        return
    began = time.monotonic()
    options = TranslateOptions(beam=beam, nbest=beam)
    found = model.translations(sources, direction.target, batch_size=PART, options=options)
    chosen = ((one.source, choose(one, references.get(one.source, ()))) for one in found)
    write(file, "".join(f"{source}\t{text}\n" for source, text in chosen if text).encode())
    say(f"{file.name}: {len(sources) / (time.monotonic() - began):,.0f} sentences/s")


def choose(translation: Translation, references: Collection[str]) -> str:
    """The best hypothesis, or the one that is closest to a reference; blank if none is complete."""
    texts = [one.text for one in translation.nbest if one.complete]
    return max(texts, key=lambda text: max((overlap(text, one) for one in references), default=0), default="")


def overlap(text: str, reference: str) -> float:
    """The share of words and pairs of words that two texts have in common (F1)."""
    first, second = (grams(one.split()) for one in (text, reference))
    return 2 * (first & second).total() / max(first.total() + second.total(), 1)


def grams(words: list[str]) -> Counter[str | tuple[str, str]]:
    return Counter([*words, *pairwise(words)])


def join(direction: Direction, out: Path, known: Collection[str], files: Iterable[Path]) -> None:
    """Writes the pairs of all files: those whose source had a translation, and the others."""
    old, new = [], []
    for line in lines(sorted(files)):
        (old if line.partition("\t")[0] in known else new).append(line)
    for name, some in ((f"{direction}.tsv.xz", old), (f"{direction}.new.tsv.xz", new)):
        write(out / name, lzma.compress("".join(some).encode(), preset=1))
        say(f"{out / name}: {len(some):,} pairs")


def lines(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        with file.open(encoding="utf-8", newline="\n") as text:
            yield from text


def write(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
