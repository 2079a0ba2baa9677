"""How a model in training does on sentences that it does not learn from."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from clearhead.data.batching import Batches, BatchingConfig
from clearhead.data.corpus import Pair
from clearhead.data.store import PairStore
from clearhead.errors import DataError
from clearhead.evaluation.bleu import bleu
from clearhead.models import Translator
from clearhead.tasks.objective import translation_loss
from clearhead.tasks.recipe import SearchConfig, TranslationRecipe
from clearhead.tasks.translation import TranslationModel
from clearhead.text.tokenizer import Tokenizer


class Validator:
    """The held-out pairs, ready for measuring a model as often as one likes."""

    def __init__(self, pairs: Sequence[Pair], tokenizer: Tokenizer, recipe: TranslationRecipe):
        self.tokenizer, self.recipe = tokenizer, recipe
        fitting = [pair for pair in pairs if self._fits(pair)]
        if not fitting:
            raise DataError(
                f"validation: none of {len(pairs)} pairs has from 1 to {recipe.model.most_words} tokens; "
                "give shorter ones or raise model.longest"
            )
        sources, targets = ([pair[side] for pair in fitting] for side in (0, 1))
        store = PairStore.of(tokenizer.encode_batch(sources), tokenizer.encode_batch(targets))
        self.batches = Batches(store, BatchingConfig(tokens=recipe.batches.tokens), seed=0)
        # Spread over all of them: corpora are often sorted, and the first would be the shortest.
        every = max(1, len(fitting) // max(1, recipe.validation.sentences))
        scored = slice(0, every * recipe.validation.sentences, every)
        self.sources, self.references = sources[scored], targets[scored]

    def measure(self, model: Translator, autocast: AbstractContextManager) -> dict[str, float]:
        """The loss, and BLEU where sentences are asked for, by name."""
        model.eval()
        scores = {"loss": self.loss(model, autocast), "bleu": self.bleu(model)}
        return {name: value for name, value in scores.items() if value is not None}

    @torch.no_grad()
    def loss(self, model: Translator, autocast: AbstractContextManager) -> float:
        """Per token, without smoothing."""
        total, tokens = 0.0, 0
        for batch in self.batches.epoch(0):
            with autocast:
                loss = translation_loss(model, batch.to(model.readout_weight.device), smoothing=0.0)
            total, tokens = total + loss.item(), tokens + batch.tokens
        return total / tokens

    def bleu(self, model: Translator) -> float | None:
        """Of some sentences; None where none are asked for."""
        if not self.sources:
            return None
        data, beam = self.recipe.data, self.recipe.validation.beam
        translator = TranslationModel(model, self.tokenizer, data.languages, SearchConfig(beam=beam))
        translations = [str(one) for one in translator.translate(self.sources)]
        return bleu(translations, self.references, data.target).value

    def _fits(self, pair: Pair) -> bool:
        longest = self.recipe.model.most_words
        return all(0 < len(self.tokenizer.encode(text)) <= longest for text in pair)
