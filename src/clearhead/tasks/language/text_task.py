"""What all tasks on running text share: the tokenizer, the token stores and the text held out."""

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.progress import track_progress
from clearhead.data.sources.documents import check_texts
from clearhead.data.store import PairStore, TextStore
from clearhead.models import MODELS
from clearhead.tasks.events import Note
from clearhead.tasks.extension import extend_parent
from clearhead.tasks.language.data import Instructions, Part, TextCorpus, write_held_out
from clearhead.tasks.task import RunContext, Task
from clearhead.text.tokenizer import UNK, Tokenizer
from clearhead.wording import counted

Store = TextStore | PairStore


class TextTask(Task):
    """Trains a model on running text that is tokenized once."""

    recipe: Any
    corpus: TextCorpus | Instructions

    @abstractmethod
    def read_corpus(self) -> TextCorpus | Instructions:
        """The text of the recipe; raises DataError for missing files."""

    @abstractmethod
    def make_processor(self, inherited: Tokenizer | None) -> Any:
        """The processor, with the tokenizer of the model that the run starts from, or a new one."""

    @property
    def tokenizer(self) -> Tokenizer:
        return self.processor

    def prepare(self, context: RunContext) -> Iterator[Note]:
        recipe, data = self.recipe, self.recipe.data
        check_texts(data.paths, data.SHIPPED)
        self.corpus = corpus = self.read_corpus()
        example = corpus.example()
        yield Note(f"for example: {example if len(example) <= 80 else f'{example[:79]}…'}")
        kind, inherited = MODELS[recipe.model.kind].Processor, None
        if context.ranks.first(lambda: not (context.out / kind.FILE).exists()):
            inherited = recipe.inherited_tokenizer()
            yield Note("reusing the tokenizer …" if inherited else "training the tokenizer …")
            if not data.validation:
                with track_progress(corpus.paths(), context.progress):
                    context.ranks.first(lambda: bool(corpus.split))  # reads all files
            if kind is Tokenizer and (
                extended := context.ranks.first(lambda: extend_parent(context, recipe.training, corpus.texts))
            ):
                inherited, note = extended
                yield Note(note)
        self.processor = context.processor(kind, lambda: self.make_processor(inherited))
        yield Note(f"tokenizer: {self.tokenizer.size:,} tokens ({recipe.tokenizer.kind})")

        yield Note("reading and tokenising the text …")
        # Rank 0 writes the store, the other ranks open it; each further machine writes its own.
        with track_progress(corpus.paths(), context.progress):
            context.ranks.first(lambda: len(self._store("train")))
            self.store = self._store("train")
        yield Note(self._about(self.store))
        self.data_fingerprint = self.store.meta["content"]["files"]
        held_out = context.ranks.first(lambda: self._hold_out(context.out))
        self.validation = self._store("validation") if held_out else None

    def _store(self, part: Part) -> Store:
        return self.corpus.store(part, self.tokenizer, self.recipe.batches.row)

    def _about(self, store: Store) -> str:
        if isinstance(store, PairStore):
            left_out = store.meta["pairs"] - len(store) + store.meta["too_long"]
            too_long = f"; {left_out:,} exceed the context and are left out" if left_out else ""
            return f"prompts with answers to train on: {len(store):,}{too_long}{self._unknown(store)}"
        characters, documents = store.meta["characters"], counted(len(store), "document")
        size = f"{characters:,} characters in {documents}, {store.tokens:,} tokens"
        return f"text to train on: {size}{self._unknown(store)}"

    def _unknown(self, store: Store) -> str:
        """A note on characters that are missing from an inherited vocabulary."""
        start = self.recipe.training.init_from
        if not start or self.recipe.tokenizer.kind != "character":
            return ""
        sides = (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
        unknown = sum(int((side.ids == UNK).sum()) for side in sides)
        return f"; {unknown:,} characters are not in the vocabulary of {start}" if unknown else ""

    def _hold_out(self, out: Path) -> bool:
        """Whether there is validation text; writes the held-out part of the training text to the folder."""
        if not self.recipe.data.holds_out:
            return False
        self._store("validation")
        write_held_out(self.corpus, out)
        return True
