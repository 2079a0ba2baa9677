"""Translates the training sentences of a model with the model itself, for a smaller one to learn from.

    python scripts/distil.py runs/en-de-fr-teacher --out runs/en-de-fr-distilled --device cuda
    python scripts/distil.py runs/teacher-1 runs/teacher-2 --out runs/distilled       (by an ensemble)

Sequence-level knowledge distillation (Kim and Rush 2016): a student learns a teacher's translations more
easily than the many ways in which people translate. Every training sentence of a language is translated in
every direction of the teacher, also those that only another corpus has, which makes new pairs.

For each direction, such as en-de, OUT gets `en-de.tsv.xz`, the sentences that had a translation before, and
`en-de.new.tsv.xz`, those that had none. Held-out sentences are left out. `--direction` translates one
direction, so that several processes can share a GPU. Several teachers with one tokenizer translate
together: each token is chosen by the mean of their probabilities. Work done is kept in OUT/parts: after
`--minutes`, when pairs of all lengths are in OUT, or if it was killed, run it again.
"""

import argparse
import lzma
import math
import random
import sys
import time
from collections.abc import Iterable, Iterator
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

PART = 16384
"""Sentences that are translated, and kept, at a time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("teachers", type=Path, nargs="+", help="folders of trained translators")
    parser.add_argument("--out", type=Path, required=True, help="folder of the translated pairs")
    parser.add_argument("--direction", action="append", help="such as en-de; default: all")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--most", type=int, help="sentences of each direction, to try it out")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    torch.set_float32_matmul_precision("high")
    sentences, known = training_sentences(options.teachers[0])
    model = load_ensemble(options.teachers, options.device)
    (options.out / "parts").mkdir(parents=True, exist_ok=True)
    for direction in model.directions:
        if options.direction and str(direction) not in options.direction:
            continue
        sources = list(sentences[direction.source])
        if options.most:
            sources = sources[:: -(-len(sources) // options.most)]
        is_done = distil(model, direction, sources, options.beam, options.out / "parts", deadline)
        join(direction, options.out, known[direction])
        if not is_done:
            sys.exit(f"{direction}: stopped after {options.minutes:g} minutes; run it again to go on")


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
) -> tuple[dict[str, dict[str, None]], dict[Direction, set[str]]]:
    """The training sentences of each language, and those that have a translation in each direction."""
    recipe = read_settings(TranslationRecipe, folder / SETTINGS)
    pairs = Corpus(recipe.data, recipe.training.seed).by_direction("train")
    sentences: dict[str, dict[str, None]] = {}
    for direction, some in pairs.items():
        sentences.setdefault(direction.source, {}).update(dict.fromkeys(pair.source for pair in some))
    return sentences, {direction: {pair.source for pair in some} for direction, some in pairs.items()}


def distil(
    model: TranslationModel,
    direction: Direction,
    sources: list[str],
    beam: int,
    parts: Path,
    deadline: float,
) -> bool:
    """Translates the sources part by part; False if time ran out."""
    # Parts of sentences of similar length waste little; parts are named by what they contain. Their order is
    # random, so that a run that is stopped early has sentences of all lengths.
    sources = sorted(sources, key=len)
    numbers = range(-(-len(sources) // PART))
    for number in random.Random(1).sample(numbers, len(numbers)):
        part = sources[number * PART : (number + 1) * PART]
        file = parts / f"{direction}.{beam}.{len(sources)}.{number:04d}.tsv"
        if file.exists():
            continue
        if time.monotonic() > deadline:
            return False
        began = time.monotonic()
        options = TranslateOptions(beam=beam)
        found = model.translations(part, direction.target, batch_size=PART, options=options)
        lines = "".join(f"{one.source}\t{one.text}\n" for one in found if one.complete and one.text)
        write(file, lines.encode())
        say(f"{file.name}: {len(part) / (time.monotonic() - began):,.0f} sentences/s")
    return True


def join(direction: Direction, out: Path, known: set[str]) -> None:
    """Writes the pairs whose source had a translation, and the others."""
    old, new = [], []
    for line in lines(sorted((out / "parts").glob(f"{direction}.*.tsv"))):
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
