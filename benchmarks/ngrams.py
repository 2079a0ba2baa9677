"""N-gram models of the Penn Treebank: perplexity of the test text, and the CPU time to build and to score.

    clearhead data get ptb --out data/ptb
    python benchmarks/ngrams.py [--data data/ptb] [--rounds 3]

Every </s> counts as a token, <s> does not: 82,430 tokens. Caches are tuned on the validation text. Times are
CPU-seconds of one thread, the median of the rounds and their range.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from clearhead.data.sources.documents import read_documents
from clearhead.models import Ngram, NgramConfig
from clearhead.tasks.ngrams.data import SentenceText
from clearhead.tasks.ngrams.evaluate import score, tune_cache
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

T = TypeVar("T")
WHITESPACE = TokenizerConfig(kind="whitespace", vocabulary=1_000_000)
MODELS: dict[str, dict[str, Any]] = {
    "Markov chain, first order": {"order": 2, "smoothing": "none"},
    "Markov chain, second order": {"order": 3, "smoothing": "none"},
    **{f"Kneser-Ney, order {order}": {"order": order} for order in range(1, 7)},
    "order 5, cache of words": {"order": 5, "cache": {"unigram": 0.12, "bigram": 0.0}},
    "order 5, cache of words and pairs": {"order": 5, "cache": {}},
    "order 2, skips of 6": {"order": 2, "skips": {"reach": 6}},
    "order 2, skips of 6, selective": {"order": 2, "skips": {"reach": 6, "min_information": 0.5}},
    "order 2, skips of 30": {"order": 2, "skips": {"reach": 30}},
    "order 2, skips of 30, selective": {"order": 2, "skips": {"reach": 30, "min_information": 0.5}},
    "order 5, skips of 30": {"order": 5, "skips": {"reach": 30}},
    "order 5, skips of 30, selective": {"order": 5, "skips": {"reach": 30, "min_information": 1.0}},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data/ptb"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only models with this in their name")
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    def texts(tokenizer: Tokenizer) -> list[SentenceText]:
        files = [arguments.data / f"ptb.{part}.txt" for part in ("train", "valid", "test")]
        return [SentenceText.read(read_documents([file]), "lines", tokenizer) for file in files]

    def read() -> tuple[Tokenizer, list[SentenceText]]:
        chunks = read_documents([arguments.data / "ptb.train.txt"])
        tokenizer = Tokenizer.train((chunk.text for chunk in chunks), WHITESPACE)
        return tokenizer, texts(tokenizer)

    times, (tokenizer, (train, valid, test)) = timed(read, arguments.rounds)
    print(f"reading and tokenising {train.words + valid.words + test.words:,} words: {times} CPU-s")
    print(f"{'model':36}{'validation':>12}{'test':>10}{'build':>20}{'score':>20}")
    for name, settings in ((name, one) for name, one in MODELS.items() if arguments.only in name):
        config = NgramConfig.model_validate(settings)

        def build(config: NgramConfig = config) -> Ngram:
            model = Ngram(config, tokenizer.size)
            model.count(train.tokens)
            if model.cache:
                tune_cache(model, valid)
            return model

        built, model = timed(build, arguments.rounds)
        scored, found = timed(lambda model=model: score(model, test), arguments.rounds)
        held_out = score(model, valid).perplexity
        print(f"{name:36}{held_out:>12.2f}{found.perplexity:>10.2f}{built:>20}{scored:>20}", flush=True)
        if found.impossible:
            print(f"{'':36}  ({found.impossible / found.tokens:.1%} of the test tokens are impossible)")
        if model.cache:
            half_life, *weights = model.cache.settings.tolist()
            print(f"{'':36}  (half-life {half_life:g}, weights {', '.join(f'{one:.3f}' for one in weights)})")


def timed(work: Callable[[], T], rounds: int) -> tuple[str, T]:
    """The median of the CPU-seconds and their range, and what the last round returned."""
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        found = work()
        seconds.append(time.process_time() - began)
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})", found


if __name__ == "__main__":
    main()
