"""Small translators, trained in one process for one case of a claim."""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.claims.claim import Options

from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.data.datasets import shipped_file
from clearhead.data.pair import Pair
from clearhead.data.sources.corpus import read_pairs
from clearhead.data.splits import HeldOut, UnsplitCorpus, hold_out
from clearhead.data.store import PairStore
from clearhead.evaluation.bleu import bleu
from clearhead.models import build, read_config
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import SearchConfig
from clearhead.tasks.translation.task import translation_loss
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import Feed, Prefetcher, Trainer, TrainingConfig

VOCABULARY, TINY_VOCABULARY, TINY_PAIRS = 8000, 300, 400


@dataclass(frozen=True, eq=False)
class Corpus:
    """Pairs to train on and to test with, and the tokenizer of both languages."""

    direction: Direction
    train: list[Pair]
    test: list[Pair]
    tokenizer: Tokenizer

    @functools.cached_property
    def store(self) -> PairStore:
        """The training pairs as token ids."""
        ids = self.tokenizer.encode_batch([text for pair in self.train for text in pair])
        return PairStore.of(ids[::2], ids[1::2])


@functools.cache
def tatoeba(language: str, tiny: bool, test: int = 1000) -> Corpus:
    """Shipped pairs of English and another language; no English sentence is in both parts."""
    direction = Direction("en", language)
    pairs = list(read_pairs(shipped_file(f"tatoeba-en-{language}"), direction))
    if tiny:
        pairs, test = pairs[:: len(pairs) // TINY_PAIRS], test // 150
    (split,) = hold_out([UnsplitCorpus(pairs, direction, validation=0, test=test)], seed=0)
    held: HeldOut = {"validation": [], "test": []}
    train = list(split.train(pairs, held))
    texts = (text for pair in train for text in pair)
    size = TINY_VOCABULARY if tiny else VOCABULARY
    return Corpus(direction, train, held["test"], Tokenizer.train(texts, TokenizerConfig(vocabulary=size)))


@dataclass(frozen=True)
class Training:
    """How long a translator is trained, and how fast."""

    steps: int
    tokens: int = 8192
    learning_rate: float = 1e-3
    warmup: int = 400
    label_smoothing: float = 0.1

    def config(self, device: str, seed: int) -> TrainingConfig:
        schedule = {
            "kind": "warmup-stable-decay",
            "learning_rate": self.learning_rate,
            "warmup": min(self.warmup, self.steps // 5),
            "decay": 0.8,
        }
        values = {"steps": self.steps, "schedule": schedule, "device": device, "compile": "off", "seed": seed}
        return TrainingConfig.model_validate({**values, "optimizer": {"kind": "adam"}})


TINY = Training(steps=3, tokens=300, warmup=1)


def recurrent(cell: str, **settings: Any) -> dict[str, Any]:
    """The settings of a recurrent translator: by default with additive attention before each step."""
    return {"kind": "seq2seq", "cell": cell, "max_length": 256, "dropout": 0.2, **settings}


def trained(
    corpus: Corpus, model: dict[str, Any], training: Training, options: Options, seed: int
) -> TranslationModel:
    """A translator with these settings, trained on the pairs of the corpus, that decodes greedily."""
    network = build(read_config(model), corpus.tokenizer)
    batches = PaddedBatches(corpus.store, BatchingConfig(tokens=training.tokens, kind="padded"), seed)
    feed = Feed(batches.epoch)
    ready = Prefetcher(feed, lambda batch: batch.pin()) if options.device == "cuda" else feed

    def loss(network: Any, batch: Any) -> torch.Tensor:
        return translation_loss(network, batch, training.label_smoothing)

    trainer = Trainer(network, loss, training.config(options.device, seed))
    try:
        for _ in trainer.steps(ready):
            pass
    finally:
        if isinstance(ready, Prefetcher):
            ready.close()
    return TranslationModel(network, corpus.tokenizer, (corpus.direction,), SearchConfig(beam=1))


def score(model: TranslationModel, pairs: Sequence[Pair]) -> float:
    """BLEU of greedy translations (sacreBLEU, cased)."""
    translations = model.translate([pair.source for pair in pairs])
    references = [pair.target for pair in pairs]
    return bleu([str(one) for one in translations], references, model.directions[0].target).value


def parameters(model: TranslationModel) -> int:
    return sum(parameter.numel() for parameter in model.model.parameters())


def data_folder() -> Path:
    """The folder of data that cannot be shipped."""
    if folder := os.environ.get("CLEARHEAD_DATA"):
        return Path(folder)
    raise SystemExit("name the folder of data sets in CLEARHEAD_DATA")
