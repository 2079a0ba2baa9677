"""The task of learning to continue a text: what a run needs to know of documents and language models."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from clearhead.data.batching.crops import Crops, PackedTexts
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.delimited import DelimitedDocuments, Delimiters
from clearhead.data.sources.documents import check_texts
from clearhead.data.store import PairStore, TextStore
from clearhead.tasks.card import text_card
from clearhead.tasks.language.data import Instructions, TextCorpus, corpus_of, counted, learn_text_tokenizer
from clearhead.tasks.language.recipe import ANSWER, PROMPT, LanguageRecipe
from clearhead.tasks.objective import TextLoss
from clearhead.tasks.records import write_named
from clearhead.tasks.validation import TextValidator
from clearhead.text.tokenizer import UNK, Tokenizer

# What a run keeps of the text that it validates on.
VALIDATION = "validation.jsonl"
Store = TextStore | PairStore


class Modelling:
    """The text of a recipe, and what is made of it."""

    reading = "reading and tokenising the text …"

    def __init__(self, recipe: LanguageRecipe):
        self.recipe = recipe

    @cached_property
    def corpus(self) -> TextCorpus | Instructions:
        return corpus_of(self.recipe.data, self.recipe.training.seed)

    def check(self) -> str:
        check_texts(self.recipe.data.paths)
        return _short(self.corpus.example())

    def paths(self) -> list[Path]:
        return self.corpus.paths()

    def split(self) -> None:
        if not self.recipe.data.validation:
            _ = self.corpus.split

    def learn_tokenizer(self) -> Tokenizer:
        return learn_text_tokenizer(self.corpus, self.recipe)

    def about_tokenizer(self, tokenizer: Tokenizer) -> str:
        return f"{tokenizer.size:,} tokens ({self.recipe.tokenizer.kind})"

    def store(self, tokenizer: Tokenizer) -> Store:
        return self.corpus.store("train", tokenizer, self.recipe.batches.row)

    def about_store(self, store: Store) -> str:
        if isinstance(store, PairStore):
            left_out = store.meta["pairs"] - len(store) + store.meta["too_long"]
            beyond = f"; {left_out:,} are too long for the model" if left_out else ""
            return f"prompts with answers to train on: {len(store):,}{beyond}{self._unknown(store)}"
        characters, documents = store.meta["characters"], counted(len(store), "document")
        told = f"text to train on: {characters:,} characters in {documents}, {store.tokens:,} tokens"
        return told + self._unknown(store)

    def files(self, store: Store) -> Any:
        return store.meta["content"]["files"]

    def hold_out(self, tokenizer: Tokenizer, out: Path) -> bool:
        """Whether there is text for validation; that of the training files is written to the folder."""
        data = self.recipe.data
        if not data.holds_out:
            return False
        self.corpus.store("validation", tokenizer, self.recipe.batches.row)
        if not data.validation and not (out / VALIDATION).exists():
            write_named(out / VALIDATION, "".join(json.dumps(one) + "\n" for one in self._held()))
        return True

    def validator(self, held_out: bool, tokenizer: Tokenizer) -> TextValidator | None:
        if not held_out:
            return None
        store = self.corpus.store("validation", tokenizer, self.recipe.batches.row)
        batches = self._batches(store, self._signs(self.store(tokenizer), tokenizer))
        size = store.meta["bytes"] / store.tokens if isinstance(store, TextStore) else None
        return TextValidator(batches, size)

    def loss(self, tokenizer: Tokenizer) -> TextLoss:
        return TextLoss.of(self.recipe.training.label_smoothing)

    def batches(
        self, store: Store, tokenizer: Tokenizer, rank: int, ranks: int, batches_per_step: int
    ) -> Crops | PackedTexts:
        return self._batches(store, self._signs(store, tokenizer), Share(rank, ranks, batches_per_step))

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        return text_card(self.recipe, model, step, scores)

    def _batches(self, store: Store, signs: Delimiters | None, share: Share = SINGLE) -> Crops | PackedTexts:
        kind = Crops if self.recipe.batches.kind == "crops" else PackedTexts
        return kind(DelimitedDocuments(store, signs), self.recipe.batches, self.recipe.training.seed, share)

    def _signs(self, trained: Store, tokenizer: Tokenizer) -> Delimiters | None:
        """What stands around documents; nothing where a single text is all there is."""
        if self.recipe.batches.kind == "crops" and len(trained) == 1:
            return None
        start, end = tokenizer.bos_id, tokenizer.eos_id
        return None if start is None or end is None else (start, end)

    def _unknown(self, store: Store) -> str:
        """How much a tokenizer that was taken over does not know; one of bytes knows everything."""
        if not self.recipe.training.init_from or self.recipe.tokenizer.kind != "character":
            return ""
        sides = (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
        unknown = sum(int((side.ids == UNK).sum()) for side in sides)
        told = f"; {unknown:,} characters are not in the vocabulary of {self.recipe.training.init_from}"
        return told if unknown else ""

    def _held(self) -> list[dict[str, str]]:
        corpus = self.corpus
        if isinstance(corpus, Instructions):
            return [{PROMPT: prompt, ANSWER: answer} for prompt, answer in corpus.pairs("validation")]
        found, text = [], ""
        for piece in corpus.pieces("validation"):
            text += piece.text
            if piece.last:
                found.append({"text": text})
                text = ""
        return found


def _short(line: str) -> str:
    return line if len(line) <= 80 else f"{line[:79]}…"
