"""Bags of words and sequence models on the same data: accuracy, awareness of order and context, cost.

    clearhead data get imdb --out data/imdb        (also sst2 and trec)
    python benchmarks/classification.py --out runs/classification [--data sst2 trec imdb] [--rule]

The first table is the fifth lecture's, measured: whether shuffled words change the predictions (order), and
whether two halves of a text say together what they say apart (context). Nothing is pre-trained. The second
table checks the rule of thumb that a bag wins below 1,500 training texts per word of the median text, and a
sequence model above; with --rule, also on parts of IMDb and on the first 12 words of its reviews. A run that
is already in --out is not repeated.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.data.sources.examples import Example, read_examples
from clearhead.tasks.classification.data import LabelledTexts
from clearhead.tasks.classification.sizing import RULE
from clearhead.tasks.recipe import read_recipe

RECIPES = Path(__file__).parents[1] / "recipes" / "classification"
NO_POSITIONS = ("model.position=none",)
MODELS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "sst2": {
        "bag of words": ("sst2-nbsvm", ("model.max_ngram=1",)),
        "bag of bigrams": ("sst2-nbsvm", ()),
        "bidirectional LSTM": ("sst2-bilstm", ()),
        "encoder, no positions": ("sst2-encoder", NO_POSITIONS),
        "encoder": ("sst2-encoder", ()),
    },
    "trec": {
        "bag of words": ("trec-tfidf", ("model.max_ngram=1",)),
        "bag of bigrams": ("trec-tfidf", ()),
        "bidirectional LSTM": ("trec-bilstm", ()),
        "encoder, no positions": ("trec-encoder", NO_POSITIONS),
        "encoder": ("trec-encoder", ()),
    },
    "imdb": {
        "bag of words": ("imdb-nbsvm", ("model.max_ngram=1",)),
        "bag of bigrams": ("imdb-nbsvm", ("model.max_ngram=2",)),
        "bag of trigrams": ("imdb-nbsvm", ()),
        "bidirectional LSTM": ("imdb-bilstm", ()),
        "encoder, no positions": ("imdb-encoder-no-positions", ()),
        "encoder": ("imdb-encoder", ()),
    },
}
# The kinds of model that the rule of thumb chooses between.
BAGS, SEQUENCES = ("bag of words", "bag of bigrams", "bag of trigrams"), ("bidirectional LSTM", "encoder")
MIN_STEPS = 300
SNIPPET = 12
"""Words of a review that count as a short text."""


@dataclass(frozen=True)
class Result:
    """One trained model on one test set."""

    data: str
    model: str
    texts: int
    ratio: float
    accuracy: float
    error: float
    """Standard error of the accuracy, from the size of the test set."""
    changed: float
    shuffled: float
    context: float
    cpu_seconds: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/classification"))
    parser.add_argument("--data", nargs="+", choices=MODELS, default=["sst2", "trec"])
    parser.add_argument("--rule", action="store_true", help="check the rule of thumb on parts of IMDb, too")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 5000, 25000], help="parts of IMDb")
    parser.add_argument(
        "--snippets", nargs="+", type=int, default=[5000, 25000], help="parts, cut to 12 words"
    )
    options = parser.parse_args()
    device = "a GPU" if torch.cuda.is_available() else f"a CPU, {torch.get_num_threads()} threads"
    print(f"{time.strftime('%Y-%m-%d')}, torch {torch.__version__}, {device}", flush=True)
    results = []
    for data in options.data:
        for model, (recipe, changes) in MODELS[data].items():
            results.append(measured(options.out, data, model, recipe, changes))
            show(results[-1])
    if options.rule:
        for result in parts_of_imdb(options.out, options.sizes, options.snippets):
            results.append(result)
            show(result)
    check_rule(results)


def measured(out: Path, data: str, model: str, recipe: str, changes: tuple[str, ...]) -> Result:
    """Trains a recipe, or finds its earlier result, and evaluates it on its test file."""
    folder = out / f"{data} {model}".replace(",", "").replace(" ", "-")
    saved = folder / "result.json"
    if saved.exists():
        return Result(**json.loads(saved.read_text()))
    settings = read_recipe(RECIPES / f"{recipe}.toml", changes)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in clearhead.train(settings, folder):
        pass
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert (folder / WEIGHTS).exists()
    trained = clearhead.load(folder, "cuda" if torch.cuda.is_available() else "cpu")
    record = trained.evaluate(folder).record
    texts = LabelledTexts.read(settings.data, settings.training.seed)
    accuracy = record["accuracy"]
    error = (accuracy * (1 - accuracy) / record["texts"]) ** 0.5
    order = record["order"]
    result = Result(
        *(data, model, len(texts.train), texts.ratio, accuracy, error),
        *(order["changed"], order["shuffled"] - order["accuracy"], record["context"], cpu, wall),
    )
    saved.write_text(json.dumps(asdict(result)))
    return result


def parts_of_imdb(out: Path, sizes: list[int], snippets: list[int]) -> Iterator[Result]:
    """Bag and sequence models on parts of IMDb, and on the first words of its reviews."""
    train, test = (list(read_examples(f"data/imdb/imdb_{part}.tsv", (0, 3))) for part in ("train", "test"))
    for words, counts in ((None, [size for size in sizes if size < len(train)]), (SNIPPET, snippets)):
        for count in counts:
            name = f"imdb {count}" + (f" first {words} words" if words else "")
            folder = out / "data" / name.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            # The reviews are sorted by label, so every n-th of them is stratified.
            write(folder / "train.tsv", train[:: len(train) // count][:count], words)
            write(folder / "test.tsv", test, words)
            files = (
                f'data.train=["{folder}/train.tsv"]',
                f'data.test=["{folder}/test.tsv"]',
                "data.validation=[]",
                "data.columns=[0,1]",
            )
            held_out = "data.hold_out.share=0.1"
            yield measured(out, name, "bag of bigrams", "imdb-nbsvm", (*files, held_out, "model.max_ngram=2"))
            # The first words of a review are as long as a sentence of SST-2, so that its recipes fit them.
            like, length, tokens, epochs = ("sst2", 14, 1024, 5) if words else ("imdb", 270, 32768, 5)
            steps = max(MIN_STEPS, epochs * count * length // tokens)
            shape = (f"training.steps={steps}", f"training.validate_every={max(1, steps // 10)}")
            for model, recipe in (("bidirectional LSTM", f"{like}-bilstm"), ("encoder", f"{like}-encoder")):
                yield measured(out, name, model, recipe, (*files, held_out, *shape))


def write(path: Path, examples: list[Example], words: int | None) -> None:
    lines = (f"{label}\t{' '.join(text.split()[:words])}\n" for label, text in examples)
    path.write_text("".join(lines), encoding="utf-8")


def show(result: Result) -> None:
    print(
        f"{result.data:28} {result.model:22} {result.accuracy:6.1%} ± {result.error:.1%}  "
        f"order: {result.changed:5.1%} change, accuracy {100 * result.shuffled:+5.1f}  "
        f"context: {result.context:4.0%}  {result.cpu_seconds:6.0f} CPU-s, {result.seconds:5.0f} s",
        flush=True,
    )


def check_rule(results: list[Result]) -> None:
    """Whether the ratio of texts to words per text predicts which kind of model wins."""
    print(f"\nrule of thumb: texts / median words; a sequence model from {RULE:,} on")
    right = total = 0
    for data in dict.fromkeys(result.data for result in results):
        here = [result for result in results if result.data == data]
        bags = [one for one in here if one.model in BAGS]
        sequences = [one for one in here if one.model in SEQUENCES]
        if not bags or not sequences:
            continue
        bag, sequence = (max(some, key=lambda one: one.accuracy) for some in (bags, sequences))
        difference = sequence.accuracy - bag.accuracy
        error = (sequence.error**2 + bag.error**2) ** 0.5
        predicted = "sequence" if bag.ratio >= RULE else "bag"
        found = "sequence" if difference > 0 else "bag"
        verdict = "right" if predicted == found else "wrong"
        if abs(difference) < error:
            verdict = "undecided: the difference is below its standard error"
        else:
            right, total = right + (predicted == found), total + 1
        print(
            f"{data:28} ratio {bag.ratio:6,.0f}: {predicted:8} predicted; {bag.model} {bag.accuracy:.1%}, "
            f"{sequence.model} {sequence.accuracy:.1%} ({100 * difference:+.1f}): {verdict}"
        )
    print(f"the rule was right in {right} of {total} decided cases")


if __name__ == "__main__":
    main()
