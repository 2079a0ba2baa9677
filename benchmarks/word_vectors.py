"""Word vectors compared with gensim: words per CPU-second and quality, trained in turn, epoch by epoch.

    python benchmarks/word_vectors.py --words EN-WS-353-ALL.txt questions-words.txt [--epochs 3] [--lines N]

CLEARHEAD_DATA names the folder with IMDb; without it, both train on the shipped Tatoeba sentences. On a GPU
(--device cuda) the rates are words per second, and gensim is left out.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F

from clearhead.data.batching.windows import Windows, WindowsConfig
from clearhead.data.store import TokenSequences
from clearhead.evaluation.word_tests import analogy_scores, read_word_test, similarity_score, total
from clearhead.models.word_vectors import WordVectors, WordVectorsConfig
from clearhead.tasks.word_vectors.data import WordCorpus, read_words
from clearhead.tasks.word_vectors.recipe import WordsConfig, WordVectorsTraining
from clearhead.tasks.word_vectors.skip_gram import SkipGramTrainer
from clearhead.training import Feed, Prefetcher, Ranks
from clearhead.training.schedule import StableSchedule

Epoch = Callable[[], None]
Vectors = Callable[[], torch.Tensor]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--words", nargs="*", type=Path, default=[], help="tests of word vectors")
    arguments.add_argument("--epochs", type=int, default=3)
    arguments.add_argument("--lines", type=int, help="use only the first lines of the text")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--alone", action="store_true", help="leave gensim out")
    arguments.add_argument(
        "--learning-rate", type=float, default=WordVectorsTraining().schedule.learning_rate
    )  # pyright: ignore
    arguments.add_argument("--step", type=int, default=WindowsConfig().words)
    arguments.add_argument("--update", type=int, default=WindowsConfig().update)
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    corpus = shortened(read_words(source()), options.lines)
    words = len(corpus.text.ids)
    print(
        f"{date.today()}, {platform.machine()}, torch {torch.__version__}, {options.device}: {words:,} words"
    )
    models = {"clearhead": clearhead(corpus, options)}
    if options.device == "cpu" and not options.alone:
        models["gensim"] = gensim(corpus, options.epochs)
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    rates: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(options.epochs):
        for name, (epoch, _) in models.items():
            start = clock()
            epoch()
            rates[name].append(words / (clock() - start))
    found = {}
    for name, (_, vectors) in models.items():
        spread = f"{min(rates[name]):,.0f} to {max(rates[name]):,.0f}"
        print(f"{name:10} {statistics.median(rates[name]):>12,.0f} words per second ({spread})")
        found[name] = {"rates": rates[name], "scores": scores(corpus, vectors(), options.words)}
    if "gensim" in models:
        ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
        print(f"clearhead is {statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def source() -> WordsConfig:
    """The training part of IMDb with and without labels, or Tatoeba."""
    folder = os.environ.get("CLEARHEAD_DATA")
    if not folder:
        return WordsConfig(train=("tatoeba-en-de", "tatoeba-en-fr"))
    imdb = Path(folder) / "imdb"
    files = (next(imdb.glob("imdb_train.tsv*")), next(imdb.glob("imdb_unlabelled.txt*")))
    return WordsConfig(train=tuple(map(str, files)), field=3)


def shortened(corpus: WordCorpus, lines: int | None) -> WordCorpus:
    offsets = corpus.text.offsets[: lines + 1] if lines else corpus.text.offsets
    text = TokenSequences(corpus.text.ids[: offsets[-1]], offsets)
    return WordCorpus(text, corpus.vocabulary, corpus.words, corpus.distinct)


def clearhead(corpus: WordCorpus, options: argparse.Namespace) -> tuple[Epoch, Vectors]:
    config = WindowsConfig(words=options.step, update=options.update)
    windows = Windows(corpus.text, corpus.counts, config, seed=1)
    training = WordVectorsTraining(
        steps=options.epochs * windows.batches,
        schedule=StableSchedule(learning_rate=options.learning_rate, warmup=0, decay=1.0),
        device=options.device,
    )
    torch.manual_seed(1)
    trainer = SkipGramTrainer(
        WordVectors(WordVectorsConfig(), corpus.vocabulary.size), training, config, Ranks()
    )
    feed = Feed(windows.epoch)
    reports = trainer.steps(feed if trainer.device.type == "cpu" else Prefetcher(feed, lambda one: one.pin()))

    def epoch() -> None:
        for _ in islice(reports, windows.batches):
            pass
        trainer.synchronize()

    return epoch, lambda: trainer.model.embedding.weight.cpu()


def gensim(corpus: WordCorpus, epochs: int) -> tuple[Epoch, Vectors]:
    """The same text and settings; one worker."""
    from gensim.models import Word2Vec

    names = corpus.vocabulary.words
    sentences = [[names[one] for one in corpus.text[row]] for row in range(len(corpus.text))]
    model = Word2Vec(vector_size=100, window=5, negative=5, sg=1, min_count=1, sample=1e-3, workers=1, seed=1)
    model.build_vocab(sentences)
    done = [0]

    def epoch() -> None:
        first, last = (0.025 - (0.025 - 0.0001) * (done[0] + more) / epochs for more in (0, 1))
        model.train(sentences, total_examples=len(sentences), epochs=1, start_alpha=first, end_alpha=last)
        done[0] += 1

    return epoch, lambda: torch.stack(
        [
            torch.tensor(model.wv[name]) if name in model.wv else torch.zeros(100)  # left out by --lines
            for name in names
        ]
    )


def scores(corpus: WordCorpus, vectors: torch.Tensor, files: list[Path]) -> dict[str, float | None]:
    """Spearman's correlation or the accuracy for each file of tests."""
    unit, find, found = F.normalize(vectors.float(), dim=-1), corpus.vocabulary.find, {}
    for test in map(read_word_test, files):
        if test.pairs:
            score = similarity_score(test, unit, find)
            found[test.name] = score.correlation
            print(f"  {test.name}: Spearman {score.correlation:.3f} ({score.tested:,} tested)")
        else:
            whole = total(analogy_scores(test, unit, find), test.name)
            found[test.name] = whole.accuracy
            print(f"  {test.name}: {whole.accuracy:.1%} right ({whole.tested:,} tested)")
    return found


if __name__ == "__main__":
    main()
