"""The task of predicting masked tokens: its data, validation and model card."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.batch import TextBatch
from clearhead.data.batching.masking import MaskedBatch, MaskedTexts, Masking
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.store import TextStore
from clearhead.errors import DataError
from clearhead.evaluation.metric import LOSS, Metric
from clearhead.models import Encoder
from clearhead.tasks.card import card, data_line, parameter_count
from clearhead.tasks.language.data import learn_text_tokenizer
from clearhead.tasks.language.recipe import VALIDATION
from clearhead.tasks.language.text_task import Store, TextTask
from clearhead.tasks.masked.data import MaskedCorpus, check_masked_texts, masked_texts
from clearhead.tasks.masked.loss import masked_loss, masked_score
from clearhead.tasks.masked.model import MaskedModel
from clearhead.tasks.masked.recipe import MaskedRecipe
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import MASK, Tokenizer
from clearhead.wording import counted

MASKED_ACCURACY = Metric("accuracy", "accuracy of masked tokens", higher_is_better=True, format=".1%")


class MaskedTask(TextTask):
    """Pre-trains an encoder on running text, some tokens of which are hidden."""

    Recipe = MaskedRecipe
    metrics = (LOSS, MASKED_ACCURACY)
    test_option = " --text FILE"
    does = "fills masks"
    command = "clearhead fill"
    recipe: MaskedRecipe
    processor: TextProcessor

    @property
    def tokenizer(self) -> Tokenizer:
        return self.processor.tokenizer

    def read_corpus(self) -> MaskedCorpus:
        check_masked_texts(self.recipe.data)
        return MaskedCorpus(self.recipe.data, self.recipe.training.seed)

    def make_processor(self, inherited: Tokenizer | None) -> TextProcessor:
        if inherited and inherited.mask_id is None:
            raise DataError(
                f"training.init_from: {self.recipe.training.init_from} has no mask token; name a masked model"
            )
        return TextProcessor(inherited or learn_text_tokenizer(self.corpus, self.recipe.tokenizer, (MASK,)))

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> MaskedTexts:
        return self._batches(self.store, Share(rank, ranks, batches_per_step))

    def loss(self, model: Encoder, batch: MaskedBatch | TextBatch) -> Tensor:
        return masked_loss(model, batch)

    def validate(self, model: Encoder, autocast: AbstractContextManager) -> dict[str, float]:
        """Loss and accuracy of hidden tokens of the held-out text, always the same ones."""
        if self.validation is None:
            return {}
        score = masked_score(model, self._batches(self.validation).sequential(), autocast)
        # Held-out text of single words may have none to hide.
        return {"loss": score.loss, "accuracy": score.accuracy} if score.tokens else {}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        recipe, config, masking = self.recipe, self.recipe.model, self.recipe.masking
        parameters = parameter_count(model)
        held_out = recipe.data.holds_out and not recipe.data.validation
        generate = ["clearhead generate 'Once upon a time' --model THIS-FOLDER"] if masking.causal else []
        return card(
            title="A masked language model",
            about=f"Pre-trained with clearhead: an encoder with {parameters:,} parameters, width "
            f"{config.width}, {counted(config.layers, 'layer')}, {counted(config.attention.heads, 'head')}, "
            f"texts of up to {config.max_length} tokens, {recipe.tokenizer.kind} vocabulary; "
            f"{masking.share:.0%} of the tokens masked; {counted(step, 'training step')}.",
            use=[
                "clearhead fill 'The [MASK] drinks milk.' --model THIS-FOLDER",
                *generate,
                "clearhead evaluate THIS-FOLDER",
                "clearhead train --labels FILE --set training.init_from=THIS-FOLDER --out runs/classifier",
            ],
            data=[data_line(file) for file in recipe.data.train],
            held_out=f"`{VALIDATION}` was held out from training." if held_out else "",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def serves(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """One that was trained on batches without masks too generates text."""
        masking = settings.get("masking")
        return ("language",) if isinstance(masking, Mapping) and masking.get("causal") else ()

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> MaskedModel:
        return MaskedModel.from_checkpoint(checkpoint)

    def _batches(self, store: Store, share: Share = SINGLE) -> MaskedTexts:
        assert isinstance(store, TextStore)
        masking = Masking.of(self.recipe.masking, self.tokenizer)
        seed = self.recipe.training.seed
        return masked_texts(store, self.tokenizer, self.recipe.batches, masking, seed, share)
