"""The captioning task: its loss, data, validation and model card."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.augmentation import augment_images
from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.caption_processor import CaptionProcessor
from clearhead.data.image_processor import ImageProcessor
from clearhead.evaluation.metric import BLEU, LOSS
from clearhead.layers.layout import Documents
from clearhead.models import Captioner
from clearhead.tasks.captioning.data import (
    CaptionBatch,
    CaptionBatches,
    CaptionRows,
    Corpus,
    DecodedImages,
    data_hash,
    decode_images,
    word_weights,
)
from clearhead.tasks.captioning.model import CaptionModel
from clearhead.tasks.captioning.recipe import CaptioningRecipe
from clearhead.tasks.card import card, parameter_count
from clearhead.tasks.events import Note
from clearhead.tasks.samples import write_samples
from clearhead.tasks.task import RunContext, Task
from clearhead.text.tokenizer import UNK, Tokenizer
from clearhead.training import cross_entropy_loss
from clearhead.wording import counted


def caption_loss(
    model: Captioner, encoded: Tensor, batch: CaptionBatch, inputs: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """The summed cross-entropy of the captions of encoded images; the decoder reads `inputs`."""
    states = model.decode(encoded, Documents(batch.documents, batch.positions), inputs)
    return cross_entropy_loss(
        states, model.readout_weight, batch.labels, label_smoothing, ignore_index=IGNORE_INDEX
    )


def words_loss(model: Captioner, encoded: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The summed cross-entropy of all words of the captions, each predicted from the image alone."""
    log_probs = model.word_logits(encoded).float().log_softmax(-1)
    words = labels.clamp(min=0).long()
    return -(log_probs.gather(1, words) * weights[words] * (labels != IGNORE_INDEX)).sum()


class CaptioningTask(Task):
    """Trains a captioner on images with captions."""

    Recipe = CaptioningRecipe
    metrics = (LOSS, BLEU)
    does = "describes images"
    command = "clearhead caption"
    argument = "IMAGE"
    recipe: CaptioningRecipe
    processor: CaptionProcessor

    def prepare(self, context: RunContext) -> Iterator[Note]:
        recipe, data = self.recipe, self.recipe.data
        yield Note("reading the captions …")
        corpus = Corpus.read(data, recipe.training.seed)
        self.data_fingerprint = data_hash(data, corpus)
        self.processor = context.processor(CaptionProcessor, lambda: self._learn_processor(corpus))
        yield Note(f"tokenizer: {self.processor.size:,} tokens ({recipe.tokenizer.kind})")
        yield Note("decoding the images …")
        self.train, damaged = decode_images(corpus.train, self.processor.image, context.progress)
        self.validation, more = decode_images(corpus.validation, self.processor.image, context.progress)
        context.ranks.first(lambda: write_samples(context.out, self.validation.pixels))
        self.rows = self._rows(self.train)
        self.left_out = replace(corpus.left_out, damaged=(*damaged, *more), too_long=self.rows.too_long)
        yield Note(self._about())

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> CaptionBatches:
        share = Share(rank, ranks, batches_per_step)
        return self._batches(self.rows, self.train, share)

    def loss(self, model: Captioner, batch: CaptionBatch) -> Tensor:
        training = self.recipe.training
        images = augment_images(batch.images, self.recipe.augmentation)
        encoded = model.encode(self.processor.image.normalize(images))
        inputs = batch.inputs
        if training.word_dropout:
            words = inputs >= len(self.processor.tokenizer.special_tokens)
            dropped = torch.rand(inputs.shape, device=inputs.device) < training.word_dropout
            inputs = inputs.masked_fill(words & dropped, UNK)
        total = caption_loss(model, encoded, batch, inputs, training.label_smoothing)
        if training.words_weight:
            weights = self._word_weights = self._word_weights.to(inputs.device)
            total = total + training.words_weight * words_loss(model, encoded, batch.labels, weights)
        return total

    @torch.no_grad()
    def validate(self, model: Captioner, autocast: AbstractContextManager) -> dict[str, float]:
        """The loss of held-out captions, and BLEU-4 of the model's own."""
        if not len(self.validation):
            return {}
        model.eval()
        total, tokens, device = 0.0, 0, model.readout_weight.device
        batches = self._validation
        for rows in batches.sequential():
            batch = batches.build(0, rows).to(device)
            with autocast:
                encoded = model.encode(self.processor.image.normalize(batch.images))
                total += caption_loss(model, encoded, batch, batch.inputs).item()
            tokens += batch.tokens
        return {"loss": total / tokens, **self._bleu(model)}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        recipe, data = self.recipe, self.recipe.data
        parameters = parameter_count(model)
        return card(
            title="A captioner of images",
            about=f"Trained with clearhead: {recipe.model.summary}, images of "
            f"{recipe.model.encoder.image_size} pixels, {recipe.tokenizer.kind} vocabulary, {parameters:,} "
            f"parameters; {counted(step, 'training step')} on {counted(len(self.train), 'image')}.",
            use=["clearhead caption IMAGE.jpg --model THIS-FOLDER", "clearhead evaluate THIS-FOLDER"],
            data=[f"{Path(file).name} and its images" for file in data.captions],
            held_out=f"Held out from training: {counted(len(self.validation), 'image')}."
            if data.holds_out
            else "",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> CaptionModel:
        return CaptionModel.from_checkpoint(checkpoint)

    @cached_property
    def _word_weights(self) -> Tensor:
        return word_weights(self.rows, self.processor.tokenizer)

    @cached_property
    def _validation(self) -> CaptionBatches:
        return self._batches(self._rows(self.validation), self.validation, SINGLE)

    def _bleu(self, model: Captioner) -> dict[str, float]:
        """BLEU-4 on some of the held-out images."""
        # Not at the top of the file: loading a model needs no sacreBLEU.
        from clearhead.evaluation.captions import caption_bleu

        sample, beam = self.validation.first(self.recipe.validation.images), self.recipe.validation.beam
        if not len(sample):
            return {}
        search = self.recipe.search.model_copy(update={"beam": beam})
        captioner = CaptionModel(model, self.processor, search)
        captions = [str(one) for one in captioner.caption_pixels(sample.pixels)]
        return {"bleu": caption_bleu(captions, sample.captions).value}

    def _learn_processor(self, corpus: Corpus) -> CaptionProcessor:
        recipe = self.recipe
        image = ImageProcessor(recipe.model.encoder.image_size, fit=recipe.data.fit)
        return CaptionProcessor(image, Tokenizer.train(corpus.train.texts, recipe.tokenizer))

    def _rows(self, images: DecodedImages) -> CaptionRows:
        ids = [self.processor.tokenizer.encode_batch(several) for several in images.captions]
        return CaptionRows(ids, self.recipe.model.max_tokens, self.recipe.batches.row_length)

    def _batches(self, rows: CaptionRows, images: DecodedImages, share: Share) -> CaptionBatches:
        return CaptionBatches(rows, images.pixels, self.recipe.batches, self.recipe.training.seed, share)

    def _about(self) -> str:
        captions = sum(map(len, self.train.captions))
        left_out = f"; left out: {self.left_out}" if str(self.left_out) else ""
        return (
            f"images to train on: {len(self.train):,} with {counted(captions, 'caption')}, "
            f"{len(self.validation):,} for validation{left_out}"
        )
