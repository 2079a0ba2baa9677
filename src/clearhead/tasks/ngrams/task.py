"""The task of counting n-grams: its data, its one pass over the text, and its model card."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from time import perf_counter, process_time

from torch import nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.progress import track_progress
from clearhead.data.sources.documents import check_texts
from clearhead.errors import DataError
from clearhead.evaluation.metric import BITS_PER_BYTE, LOSS, PERPLEXITY
from clearhead.models import Ngram
from clearhead.models.backoff import FALLBACK, discounts
from clearhead.tasks.card import card, data_line
from clearhead.tasks.events import Event, Finished, Note, Validation
from clearhead.tasks.language.data import Part, TextCorpus, learn_text_tokenizer, write_held_out
from clearhead.tasks.language.recipe import VALIDATION
from clearhead.tasks.ngrams.data import SentenceText
from clearhead.tasks.ngrams.evaluate import score, tune_cache
from clearhead.tasks.ngrams.model import NgramModel
from clearhead.tasks.ngrams.recipe import NgramRecipe
from clearhead.tasks.task import ONE_STEP, RunContext, Task, publish
from clearhead.text.tokenizer import Tokenizer
from clearhead.wording import counted


class NgramTask(Task):
    """Counts the n-grams of running text."""

    Recipe = NgramRecipe
    metrics = (LOSS, BITS_PER_BYTE, PERPLEXITY)
    test_option = " --text FILE"
    does = "continues text"
    command = "clearhead generate"
    recipe: NgramRecipe
    processor: Tokenizer

    def prepare(self, context: RunContext) -> Iterator[Note]:
        recipe, data = self.recipe, self.recipe.data
        check_texts([*data.paths, *data.test])
        self.corpus = corpus = TextCorpus(data, recipe.training.seed)
        corpus.example()  # raises where there is no text
        yield Note("training the tokenizer …")
        with track_progress(corpus.paths(), context.progress):
            self.processor = context.processor(
                Tokenizer, lambda: learn_text_tokenizer(corpus, recipe.tokenizer)
            )
        yield Note(f"tokenizer: {self.processor.size:,} tokens ({recipe.tokenizer.kind})")
        yield Note("reading and tokenising the text …")
        with track_progress(corpus.paths(), context.progress):
            self.text = self._read("train")
        if self.text.distinct < 2:
            distinct = counted(self.text.distinct, "distinct word")
            raise DataError(
                f"{' and '.join(data.train)}: {distinct} in the training text, so nothing can be learned; "
                "give more text"
            )
        yield Note(f"text to count: {self._about(self.text)}")
        if data.holds_out:
            context.ranks.first(lambda: write_held_out(corpus, context.out))
        self.validation = self._read("validation") if data.holds_out else None

    def fit(self, context: RunContext) -> Generator[Event, None, Finished]:
        """Counts, tunes the cache if there is one, and writes the model; a killed run counts again."""
        started = process_time()
        model = self.build()
        assert isinstance(model, Ngram)
        model.count(self.text.tokens)
        yield Note(f"counted in {process_time() - started:.1f} CPU-seconds: {_about(model)}")
        if guessed := _guessed(model):
            yield Note(f"too few counts to estimate the discounts of {guessed}; using KenLM's fallback")
        if model.cache:
            if self.validation:
                tune_cache(model, self.validation)
            half_life, unigram, bigram = model.cache.settings.tolist()
            tuned = "tuned on the validation text" if self.validation else "not tuned, as no text is held out"
            yield Note(
                f"cache ({tuned}): half-life {half_life:g} words, weight of recent words {unigram:.3f}, "
                f"of words after the same word {bigram:.3f}"
            )
        begun = perf_counter()
        scores = self.validate(model)
        if scores:
            yield Validation(ONE_STEP, scores, True, perf_counter() - begun, self.metrics)
        elif self.validation:
            yield Note("without smoothing, some of the validation text is impossible: no perplexity")
        context.ranks.first(lambda: publish(self, model, scores, context.out))
        return Finished(context.out, ONE_STEP, False, "all n-grams are counted")

    def validate(self, model: Ngram, autocast: AbstractContextManager | None = None) -> dict[str, float]:
        """Loss per token, bits per byte and perplexity of the validation text."""
        return score(model, self.validation).record() if self.validation else {}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        data, config = self.recipe.data, self.recipe.model
        extra = [name for name in ("skips", "cache") if getattr(config, name)]
        assert isinstance(model, Ngram)
        return card(
            title="An n-gram model",
            about=f"Counted with clearhead: order {config.order}, smoothing {config.smoothing}"
            f"{''.join(f', {name}' for name in extra)}; {_about(model)}.",
            use=["clearhead generate 'the' --model THIS-FOLDER", "clearhead evaluate THIS-FOLDER"],
            data=[data_line(file) for file in data.train],
            held_out="" if data.validation or not data.holds_out else f"`{VALIDATION}` was held out.",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> NgramModel:
        return NgramModel.from_checkpoint(checkpoint)

    def _read(self, part: Part) -> SentenceText:
        return SentenceText.read(self.corpus.pieces(part), self.recipe.data.sentences, self.processor)

    def _about(self, text: SentenceText) -> str:
        thing = "sentence" if self.recipe.data.sentences == "lines" else "document"
        return f"{text.words:,} tokens in {counted(text.sentences, thing)}, {text.unknown:,} of them unknown"


def _about(model: Ngram) -> str:
    """The number of n-grams of each order."""
    tables = enumerate(model.backoff.tables, start=1)
    parts = [f"{int((table.counts > 0).sum()):,} of order {number}" for number, table in tables]
    if model.skips:
        selected = int(model.skips.mask.sum())
        parts.append(f"{counted(len(model.skips.features), 'pair')} with skips ({selected:,} not masked)")
    return ", ".join(parts)


def _guessed(model: Ngram) -> str:
    """The orders whose discounts could not be estimated."""
    tables = enumerate(model.backoff.tables, start=1)
    if model.config.smoothing == "none":
        return ""
    orders = [
        number for number, table in tables if (*discounts(table.counts, "kneser-ney").tolist(),) == FALLBACK
    ]
    return " and ".join(f"order {number}" for number in orders)
