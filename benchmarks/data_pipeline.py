"""Reads, cleans, tokenises and batches millions of pairs; prints the speed of each phase and the peak memory.

The pairs are generated: each line joins one to three random Tatoeba pairs.

    python benchmarks/data_pipeline.py [--pairs 2000000] [--limit-gb 1.5]
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.data.build import cached_store
from clearhead.data.cleaning import CleaningConfig, Tally, clean
from clearhead.data.pair import TaggedPair
from clearhead.data.sources.corpus import corpus_hash, read_pairs
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

LANGUAGES = ("en", "de")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--pairs", type=int, default=2_000_000)
    arguments.add_argument("--limit-gb", type=float, default=1.5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.pairs)
    peak = peak_gb()
    print(f"peak memory {peak:.2f} GB, limit {options.limit_gb} GB")
    sys.exit(peak > options.limit_gb)


def measure(folder: Path, count: int) -> None:
    path = folder / "pairs.tsv"
    with timed("generated", count):
        generate(path, count)
    with timed("read", count):
        assert sum(1 for _ in read_pairs(path, LANGUAGES)) == count
    tally = Tally()
    with timed("read and cleaned", count):
        assert sum(1 for _ in cleaned(path, tally)) == tally.kept
    print(f"  {tally}")
    sample = min(count, 100_000)
    with timed("used to train the tokenizer", sample):
        texts = (text for example in islice(cleaned(path, Tally()), sample) for text in example.pair)
        tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="bpe", vocabulary=8000))
    content = {"files": corpus_hash(path), "cleaning": CleaningConfig().model_dump()}
    with timed("read, cleaned, tokenised and stored", count):
        cached_store(folder / "cache", content, partial(cleaned, path), tokenizer, max_length=256)
    with timed("reopened from the cache", count):
        store = cached_store(folder / "cache", content, partial(cleaned, path), tokenizer, max_length=256)
    batches = PaddedBatches(store, BatchingConfig(tokens=4096), seed=0)
    with timed("planned for an epoch", len(store)):
        batches.count(0)
    with timed("batched for an epoch", len(store)):
        cells = tokens = 0
        for batch in batches.epoch(0):
            cells += batch.source.numel() + batch.labels.numel()
            tokens += batch.source_tokens + batch.tokens
    print(
        f"  {batches.count(0):,} batches, {tokens:,} tokens on both sides, padding {1 - tokens / cells:.1%}"
    )


def cleaned(path: Path, tally: Tally) -> Iterator[TaggedPair]:
    return map(TaggedPair, clean(read_pairs(path, LANGUAGES), CleaningConfig(), tally))


def generate(path: Path, count: int) -> None:
    pairs = list(read_pairs("tatoeba-en-de", LANGUAGES))
    generator = random.Random(0)
    joined = generator.choices((1, 2, 3), weights=(5, 50, 45), k=1000)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            sources, targets = zip(*generator.choices(pairs, k=joined[number % len(joined)]), strict=True)
            file.write(f"{' '.join(sources)}\t{' '.join(targets)}\n")


@contextmanager
def timed(what: str, count: int) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    print(
        f"{count:,} {what}: {seconds:.1f} s, {count / seconds:,.0f} per second, {peak_gb():.2f} GB",
        flush=True,
    )


def peak_gb() -> float:
    """Peak memory of this process or of one of its children."""
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(one).ru_maxrss for one in processes) / 1024**2


if __name__ == "__main__":
    main()
