"""The word-vector task: its loss, data and model card."""

from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.batching.plan import Share
from clearhead.data.batching.windows import WindowBatch, Windows
from clearhead.data.progress import track_progress
from clearhead.errors import SettingsError
from clearhead.models.word_vectors import WordVectors
from clearhead.tasks.card import card, data_line
from clearhead.tasks.events import Note
from clearhead.tasks.task import RunContext, Task
from clearhead.tasks.word_vectors.data import WordCorpus, check_sources, read_words, source_files
from clearhead.tasks.word_vectors.model import WordVectorsModel
from clearhead.tasks.word_vectors.recipe import WordVectorsRecipe
from clearhead.tasks.word_vectors.skip_gram import SkipGramTrainer, skip_gram_loss
from clearhead.text.vocabulary import Vocabulary
from clearhead.training import Ranks
from clearhead.wording import counted


class WordVectorsTask(Task):
    """Trains word vectors on running text."""

    Recipe = WordVectorsRecipe
    does = "holds word vectors"
    command = "clearhead neighbours"
    test_option = " --words FILE"
    recipe: WordVectorsRecipe
    processor: Vocabulary
    corpus: WordCorpus

    def prepare(self, context: RunContext) -> Iterator[Note]:
        recipe, data = self.recipe, self.recipe.data
        if context.ranks.count > 1:
            raise SettingsError("word vectors are trained by one process; start it without torchrun")
        check_sources(data)
        yield Note("reading the words …")
        with track_progress(source_files(data), context.progress):
            self.corpus = corpus = read_words(data)
        self.processor = context.processor(Vocabulary, lambda: corpus.vocabulary)
        self.data_fingerprint = corpus.fingerprint
        self.windows = Windows(corpus.text, corpus.counts, recipe.batches, recipe.training.seed)
        steps = recipe.training.steps or recipe.training.epochs * self.windows.batches
        training = recipe.training.model_copy(update={"steps": steps})
        self.recipe = recipe.model_copy(update={"training": training})
        yield Note(
            f"text: {corpus.words:,} words in {counted(len(corpus.text), 'line')}; vocabulary: "
            f"{corpus.vocabulary.size:,} of {corpus.distinct:,} words, those that occur at least "
            f"{data.min_count} times"
        )
        yield Note(f"run: {counted(steps, 'step')} of {recipe.batches.words:,} words")

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> Windows:
        self.windows.share = Share(rank, ranks, batches_per_step)
        return self.windows

    def loss(self, model: WordVectors, batch: WindowBatch) -> Tensor:
        return skip_gram_loss(model, batch, self.recipe.batches.negatives)

    def trainer(self, model: WordVectors, ranks: Ranks) -> SkipGramTrainer:
        return SkipGramTrainer(model, self.recipe.training, self.recipe.batches, ranks)

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        recipe, corpus = self.recipe, self.corpus
        batches = recipe.batches
        return card(
            title="Word vectors",
            about="Trained with clearhead: skip-gram with negative sampling, "
            f"{corpus.vocabulary.size:,} words of width {recipe.model.width}, window {batches.window}, "
            f"{batches.negatives} negatives, {counted(step, 'step')} of {batches.words:,} words.",
            use=[
                f"clearhead neighbours {corpus.vocabulary.words[0]} --model THIS-FOLDER",
                "clearhead evaluate THIS-FOLDER --words EN-WS-353-ALL.txt",
                "clearhead export THIS-FOLDER --to word2vec --out vectors.bin",
            ],
            data=[*map(data_line, recipe.data.train), f"{corpus.words:,} words in all"],
            held_out="",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> WordVectorsModel:
        return WordVectorsModel.from_checkpoint(checkpoint)
