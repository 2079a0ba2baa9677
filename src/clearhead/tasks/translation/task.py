"""The translation task: its loss, data, validation and model card."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint, load_checkpoint
from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.data.batching.buckets import PaddedBatches
from clearhead.data.batching.packing import PackedBatches
from clearhead.data.batching.plan import Share
from clearhead.data.bpe_dropout import BPEDropout
from clearhead.data.copying import Copying, can_copy
from clearhead.data.progress import track_progress
from clearhead.data.sources.corpus import Pair, check_files
from clearhead.errors import ModelError
from clearhead.evaluation.metric import BLEU, LOSS
from clearhead.layers.layout import Packed, Padded, PairLayout
from clearhead.models import EncoderDecoder
from clearhead.tasks.card import card, data_line, parameter_count
from clearhead.tasks.events import Note
from clearhead.tasks.extension import extend_parent
from clearhead.tasks.init_from import naming
from clearhead.tasks.records import write_named
from clearhead.tasks.task import RunContext, Task
from clearhead.tasks.translation.data import (
    TOKENIZER_PAIRS,
    Corpus,
    learn_tokenizer,
    store,
    tally,
    training_files,
)
from clearhead.tasks.translation.directions import Direction, file_name, has_tags, tags, targets
from clearhead.tasks.translation.evaluate import Validator
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.recipe import TEACHER, TranslationRecipe
from clearhead.text.languages import NAMES, language_tag
from clearhead.text.spelling import Unspelled
from clearhead.text.tokenizer import PAD, Tokenizer
from clearhead.training import (
    Criterion,
    RDropConfig,
    Readout,
    SimCutConfig,
    chunked_cross_entropy,
    find_device,
)
from clearhead.wording import counted

# Pairs that an inherited tokenizer is tried on.
SPELLED_PAIRS = 1000
Batch = PairBatch | PackedBatch


@dataclass(frozen=True, eq=False)
class TranslationLoss:
    """The summed loss of a batch: label-smoothed cross-entropy, a regulariser, distillation from a teacher.

    A regulariser compares two views of each sentence, as rows of one batch of twice the size. SimCut never
    cuts special tokens: ids below `first_token`, and those that were added to the vocabulary.
    """

    criterion: Criterion
    first_token: int = 0
    added_tokens: tuple[int, ...] = ()
    teacher: EncoderDecoder | None = None

    def __call__(self, model: EncoderDecoder, batch: Batch) -> Tensor:
        views = self.criterion.views
        source, inputs = self._views(batch.source), self._views(batch.inputs)
        states = model.states(source, layout(batch, views), inputs)
        return chunked_cross_entropy(
            states.unflatten(0, (views, -1)),
            model.readout_weight,
            batch.labels,
            self.criterion,
            model.readout_bias,
            self._teacher_readout(batch),
        )

    @torch.no_grad()
    def _teacher_readout(self, batch: Batch) -> Readout | None:
        if self.teacher is None:
            return None
        states = self.teacher.states(batch.source, layout(batch), batch.inputs)
        return Readout(states, self.teacher.readout_weight, self.teacher.readout_bias)

    def _views(self, tokens: Tensor) -> Tensor:
        """The tokens of all views, concatenated along the batch."""
        match self.criterion.regulariser:
            case None:
                return tokens
            case RDropConfig():
                return torch.cat([tokens, tokens])
            case SimCutConfig(cut=share):
                return torch.cat([tokens, self._cut(tokens, share)])

    def _cut(self, tokens: Tensor, share: float) -> Tensor:
        """The tokens with some replaced by padding, whose embedding carries only the position."""
        chosen = (torch.rand(tokens.shape, device=tokens.device) < share) & (tokens >= self.first_token)
        # Compared one by one: a tensor of ids could not be made inside a CUDA graph.
        for token in self.added_tokens:
            chosen &= tokens != token
        return tokens.masked_fill(chosen, PAD)


def translation_loss(model: EncoderDecoder, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """The summed cross-entropy of a batch."""
    return TranslationLoss(Criterion(label_smoothing))(model, batch)


def layout(batch: Batch, times: int = 1) -> PairLayout:
    """The layout of the sentences in the rows of a batch, repeated along the batch `times`."""

    def repeated(tensor: Tensor) -> Tensor:
        return torch.cat([tensor] * times) if times > 1 else tensor

    if isinstance(batch, PairBatch):
        return Padded(repeated(batch.source_lengths))
    source = repeated(batch.source_segments), repeated(batch.source_positions)
    return Packed(*source, repeated(batch.target_segments), repeated(batch.target_positions))


class TranslationTask(Task):
    """Trains a translator on sentence pairs."""

    Recipe = TranslationRecipe
    metrics = (LOSS, BLEU)
    test_option = " --pairs FILE"
    does = "translates"
    command = "clearhead translate"
    recipe: TranslationRecipe
    processor: Tokenizer

    def prepare(self, context: RunContext) -> Iterator[Note]:
        recipe, data = self.recipe, self.recipe.data
        check_files(data.paths)
        self.corpus = Corpus(data, recipe.training.seed)
        example = next(self.corpus.examples())
        yield Note(f"for example: {example.source} -> {example.target}")
        files = [path for corpus in data.corpora for path in training_files(corpus)]
        inherited = None
        if context.ranks.first(lambda: not (context.out / Tokenizer.FILE).exists()):
            inherited = recipe.inherited_tokenizer()
            yield Note("reusing the tokenizer …" if inherited else "training the tokenizer …")
            with track_progress(files, context.progress):
                context.ranks.first(self.corpus.split)
            extended = context.ranks.first(lambda: self._extended(context, inherited))
            if extended:
                inherited, note = extended
                yield Note(note)
        self.processor = context.processor(
            Tokenizer, lambda: inherited or learn_tokenizer(self.corpus, recipe)
        )
        if inherited and (warning := self._unspelled(inherited)):
            yield Note(warning)
        sharing = "both" if len(data.languages) == 2 else f"all {len(data.languages)}"
        size, kind = self.processor.size, recipe.tokenizer.kind
        yield Note(f"tokenizer: {size:,} tokens ({kind}), shared by {sharing} languages")

        yield Note("reading, cleaning and tokenising the pairs …")
        # Rank 0 writes the store, the other ranks open it; each further machine writes its own.
        with track_progress(files, context.progress):
            context.ranks.first(lambda: len(store(self.corpus, "train", self.processor, recipe)))
            self.store = store(self.corpus, "train", self.processor, recipe)
        several = f" in {len(data.directions)} directions" if len(data.directions) > 1 else ""
        yield Note(f"pairs to train on: {len(self.store):,}{several} ({tally(self.store)})")
        self.data_fingerprint = self.store.meta["content"]["files"]
        held_out = context.ranks.first(lambda: self._hold_out(context.out))
        self.validator = Validator(held_out, self.processor, recipe) if any(held_out.values()) else None
        training = recipe.training
        distilled = training.distillation.weight if training.distillation else 0.0
        criterion = Criterion(training.label_smoothing, training.regulariser, distilled)
        first = len(self.processor.special_tokens)
        added = tuple(sorted(number for number in self.processor.special_ids if number >= first))
        self._loss = TranslationLoss(criterion, first, added, self._teacher())

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> PaddedBatches | PackedBatches:
        recipe = self.recipe
        kind = PackedBatches if recipe.batches.kind == "packed" else PaddedBatches
        seed, dropout = recipe.training.seed, recipe.tokenizer.dropout
        encode = lengths = None
        if dropout:
            encode = BPEDropout(self.store, self.processor, dropout, seed, recipe.model.max_tokens)
        if (copying := recipe.training.copying) and can_copy(self.processor):
            copies = Copying(self.store, self.processor, copying, seed, recipe.model.max_tokens, encode)
            # With BPE dropout, to measure an epoch would take too long.
            encode, lengths = copies, None if dropout else copies.lengths
        return kind(self.store, recipe.batches, seed, Share(rank, ranks, batches_per_step), encode, lengths)

    def loss(self, model: EncoderDecoder, batch: Batch) -> Tensor:
        return self._loss(model, batch)

    def validate(self, model: nn.Module, autocast: AbstractContextManager) -> dict[str, float]:
        return self.validator.measure(model, autocast, translation_loss) if self.validator else {}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        recipe, config = self.recipe, self.recipe.model
        directions = recipe.data.directions
        to = recipe.usage(recipe.model_dump(mode="json"))
        files = [
            f"`{file_name(part, one, directions)}`" for one in directions for part in ("validation", "test")
        ]
        parameters = parameter_count(model)
        return card(
            title=", ".join(f"{NAMES[source]} to {NAMES[target]}" for source, target in directions),
            about=f"A translator trained with clearhead: {config.summary}, {recipe.tokenizer.kind} "
            f"vocabulary, {parameters:,} parameters; {counted(step, 'training step')}.",
            use=[
                f"clearhead translate --model THIS-FOLDER{to} 'A sentence.'",
                f"clearhead evaluate THIS-FOLDER{to}",
            ],
            data=[data_line(file) for corpus in recipe.data.corpora for file in corpus.train],
            held_out=f"{', '.join(files[:-1])} and {files[-1]} were held out from training.",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> TranslationModel:
        return TranslationModel.from_checkpoint(checkpoint)

    def _extended(self, context: RunContext, inherited: Tokenizer | None) -> tuple[Tokenizer, str] | None:
        """The parent's tokenizer with what the pairs need, and a note on it; None if it has everything."""
        directions = self.recipe.data.directions
        several = bool(tags(directions)) or (inherited is not None and has_tags(inherited))
        needed = [language_tag(language) for language in targets(directions)] if several else []
        texts = partial(self.corpus.texts, TOKENIZER_PAIRS)
        return extend_parent(context, self.recipe.training, texts, needed)

    def _unspelled(self, inherited: Tokenizer) -> str | None:
        """A warning if an inherited tokenizer cannot spell the first training pairs."""
        training = self.recipe.training
        teacher = training.distillation.teacher if training.distillation else ""
        found = Unspelled.of(inherited, self.corpus.texts(SPELLED_PAIRS))
        warning = found.warning(Path(training.init_from or teacher).name)
        return warning and f"{warning}; clearhead tune extends a tokenizer"

    def _teacher(self) -> EncoderDecoder | None:
        recipe = self.recipe
        if not recipe.training.distillation:
            return None
        folder = Path(recipe.training.distillation.teacher)
        with naming(TEACHER):
            checkpoint = load_checkpoint(folder)
        teacher = checkpoint.model
        if not isinstance(teacher, EncoderDecoder):
            raise ModelError(f"{TEACHER}: {folder} does not translate; name a translator's folder")
        if checkpoint.processor.fingerprint != self.processor.fingerprint:
            raise ModelError(
                f"{TEACHER}: the tokenizer of {folder} differs from that of the run; restore it, or use "
                "another folder"
            )
        if teacher.config.max_length < recipe.model.max_length:
            raise ModelError(
                f"{TEACHER}: {folder} takes at most {teacher.config.max_length} tokens, this model "
                f"{recipe.model.max_length}; lower model.max_length"
            )
        if recipe.batches.kind == "packed" and not teacher.config.packs:
            raise ModelError(
                f"{TEACHER}: {folder} needs a row for each sentence; set batches.kind to 'padded'"
            )
        return teacher.requires_grad_(False).to(find_device(recipe.training.device))

    def _hold_out(self, out: Path) -> dict[Direction, list[Pair]]:
        """The validation pairs; writes these and the test pairs to the folder."""
        directions, held_out = self.recipe.data.directions, self.corpus.by_direction("validation")
        for part, kept in (("validation", held_out), ("test", self.corpus.by_direction("test"))):
            for direction, pairs in kept.items():
                lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
                write_named(out / file_name(part, direction, directions), lines)
        return held_out
