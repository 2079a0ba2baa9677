"""How a model in training does on sentences or text that it does not learn from."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import log

import torch

from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.data.batching.crops import Crops, PackedTexts
from clearhead.data.sources.corpus import Pair
from clearhead.data.store import PairStore
from clearhead.errors import DataError
from clearhead.evaluation.bleu import bleu
from clearhead.models import GPT, Translator
from clearhead.tasks.objective import TextLoss, translation_loss
from clearhead.tasks.translation.directions import Direction, tag_ids
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.recipe import SearchConfig, TranslationRecipe
from clearhead.text.tokenizer import Tokenizer


class Validator:
    """The held-out pairs of each direction, ready for measuring a model as often as one likes."""

    def __init__(
        self, pairs: Mapping[Direction, Sequence[Pair]], tokenizer: Tokenizer, recipe: TranslationRecipe
    ):
        self.tokenizer, self.recipe = tokenizer, recipe
        self.tags = tag_ids(recipe.data.directions, tokenizer)
        fitting = {one: [pair for pair in some if self._fits(pair)] for one, some in pairs.items()}
        fitting = {one: some for one, some in fitting.items() if some}
        if not fitting:
            raise DataError(
                f"validation: none of {sum(map(len, pairs.values()))} pairs has from 1 to "
                f"{recipe.model.max_tokens} tokens; give shorter ones or raise model.max_length"
            )
        self.batches = PaddedBatches(
            self._store(fitting), BatchingConfig(tokens=recipe.batches.tokens), seed=0
        )
        share = -(-recipe.validation.sentences // len(fitting))
        self.scored = {one: _spread(some, share) for one, some in fitting.items()} if share else {}

    def measure(self, model: Translator, autocast: AbstractContextManager) -> dict[str, float]:
        """The loss, and BLEU where sentences are asked for, by name; of several directions their mean too."""
        model.eval()
        return {"loss": self.loss(model, autocast), **self.bleu(model)}

    @torch.no_grad()
    def loss(self, model: Translator, autocast: AbstractContextManager) -> float:
        """Per token, without smoothing."""
        total, tokens = 0.0, 0
        for batch in self.batches.epoch(0):
            with autocast:
                loss = translation_loss(model, batch.to(model.readout_weight.device), label_smoothing=0.0)
            total, tokens = total + loss.item(), tokens + batch.tokens
        return total / tokens

    def bleu(self, model: Translator) -> dict[str, float]:
        """Of some sentences; of several directions, that of each and their mean."""
        data, beam = self.recipe.data, self.recipe.validation.beam
        translator = TranslationModel(model, self.tokenizer, data.directions, SearchConfig(beam=beam))
        found = {}
        for direction, pairs in self.scored.items():
            sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
            translations = [str(one) for one in translator.translate(sources, to=direction.target)]
            found[str(direction)] = bleu(translations, references, direction.target).value
        mean = {"bleu": sum(found.values()) / len(found)} if found else {}
        each = {f"bleu {name}": value for name, value in found.items()}
        return mean | (each if len(data.directions) > 1 else {})

    def _store(self, pairs: Mapping[Direction, Sequence[Pair]]) -> PairStore:
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        for direction, some in pairs.items():
            tag = [self.tags[direction.target]] if self.tags else []
            sources += [tag + ids for ids in self.tokenizer.encode_batch([pair.source for pair in some])]
            targets += self.tokenizer.encode_batch([pair.target for pair in some])
        return PairStore.of(sources, targets)

    def _fits(self, pair: Pair) -> bool:
        max_length = self.recipe.model.max_tokens
        source, target = (len(self.tokenizer.encode(text)) for text in pair)
        return 0 < source <= max_length - bool(self.tags) and 0 < target <= max_length


class TextValidator:
    """The held-out text, ready for measuring a model as often as one likes: all of it, each word once."""

    def __init__(self, batches: Crops | PackedTexts, bytes_per_token: float | None):
        self.batches, self.bytes_per_token = batches, bytes_per_token
        self.criterion = TextLoss.of()

    @torch.no_grad()
    def measure(self, model: GPT, autocast: AbstractContextManager) -> dict[str, float]:
        """The loss per token, and where the text is known as such, the bits that each byte of it takes."""
        model.eval()
        total, tokens = 0.0, 0
        for batch in self.batches.sequential():
            with autocast:
                loss = self.criterion(model, batch.to(model.readout_weight.device))
            total, tokens = total + loss.item(), tokens + batch.tokens
        loss = total / tokens
        bits = {"bits_per_byte": loss / log(2) / self.bytes_per_token} if self.bytes_per_token else {}
        return {"loss": loss, **bits}


def _spread(pairs: Sequence[Pair], count: int) -> Sequence[Pair]:
    """So many from all over: corpora are often sorted, and the first would be the shortest."""
    every = max(1, len(pairs) // count)
    return pairs[: every * count : every]
