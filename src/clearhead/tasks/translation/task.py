"""The task of learning to translate: what a run needs to know of pairs, languages and translators."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from clearhead.data.batching.buckets import PaddedBatches
from clearhead.data.batching.packing import PackedBatches
from clearhead.data.batching.plan import Share
from clearhead.data.bpe_dropout import BPEDropout
from clearhead.data.sources.corpus import Pair, check_files
from clearhead.data.store import PairStore
from clearhead.tasks.card import model_card
from clearhead.tasks.init_from import make_loss
from clearhead.tasks.objective import TranslationLoss
from clearhead.tasks.records import write_named
from clearhead.tasks.translation.data import Corpus, learn_tokenizer, store, tally, training_files
from clearhead.tasks.translation.directions import Direction, file_name
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.validation import Validator
from clearhead.text.tokenizer import Tokenizer


class Translating:
    """The pairs of a recipe, and what is made of them."""

    reading = "reading, cleaning and tokenising the pairs …"

    def __init__(self, recipe: TranslationRecipe):
        self.recipe = recipe
        self.corpus = Corpus(recipe.data, recipe.training.seed)

    def check(self) -> str:
        check_files(self.recipe.data.paths)
        example = next(self.corpus.examples())
        return f"{example.source} -> {example.target}"

    def paths(self) -> list[Path]:
        return [path for corpus in self.recipe.data.corpora for path in training_files(corpus)]

    def split(self) -> None:
        self.corpus.split()

    def learn_tokenizer(self) -> Tokenizer:
        return learn_tokenizer(self.corpus, self.recipe)

    def about_tokenizer(self, tokenizer: Tokenizer) -> str:
        languages = self.recipe.data.languages
        shared = "both" if len(languages) == 2 else f"all {len(languages)}"
        return f"{tokenizer.size:,} tokens ({self.recipe.tokenizer.kind}), shared by {shared} languages"

    def store(self, tokenizer: Tokenizer) -> PairStore:
        return store(self.corpus, "train", tokenizer, self.recipe)

    def about_store(self, store: PairStore) -> str:
        directions = self.recipe.data.directions
        ways = f" in {len(directions)} directions" if len(directions) > 1 else ""
        return f"pairs to train on: {len(store):,}{ways} ({tally(store)})"

    def files(self, store: PairStore) -> Any:
        return store.meta["content"]["files"]

    def hold_out(self, tokenizer: Tokenizer, out: Path) -> dict[Direction, list[Pair]]:
        """The pairs for validation; these and those for a test are written to the folder."""
        held_out = self.corpus.by_direction("validation")
        for part, kept in (("validation", held_out), ("test", self.corpus.by_direction("test"))):
            for direction, some in kept.items():
                write_named(out / file_name(part, direction, self.recipe.data.directions), _tsv(some))
        return held_out

    def validator(self, held_out: dict[Direction, list[Pair]], tokenizer: Tokenizer) -> Validator | None:
        return Validator(held_out, tokenizer, self.recipe) if any(held_out.values()) else None

    def loss(self, tokenizer: Tokenizer) -> TranslationLoss:
        return make_loss(self.recipe, tokenizer)

    def batches(
        self, store: PairStore, tokenizer: Tokenizer, rank: int, ranks: int, batches_per_step: int
    ) -> PaddedBatches | PackedBatches:
        recipe = self.recipe
        kind = PackedBatches if recipe.batches.kind == "packed" else PaddedBatches
        encode = splitting(store, tokenizer, recipe) if recipe.tokenizer.dropout else None
        share = Share(rank, ranks, batches_per_step)
        return kind(store, recipe.batches, recipe.training.seed, share, encode)

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        size = sum(parameter.numel() for parameter in model.parameters())
        return model_card(self.recipe, size, step, scores)


def splitting(pairs: PairStore, tokenizer: Tokenizer, recipe: TranslationRecipe) -> BPEDropout:
    """The pairs with their words split anew in every epoch."""
    dropout, seed = recipe.tokenizer.dropout, recipe.training.seed
    return BPEDropout(pairs, tokenizer, dropout, seed, recipe.model.max_tokens)


def _tsv(pairs: Iterable[Pair]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)
