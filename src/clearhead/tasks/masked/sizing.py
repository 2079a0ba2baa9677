"""A recipe for masked pre-training, sized to a text: tokenizer, model and length of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.survey import Survey
from clearhead.models import EncoderConfig
from clearhead.tasks.language.sizing import BYTES_PER_TOKEN, text_line
from clearhead.tasks.masked.data import MaskedCorpus, check_masked_texts
from clearhead.tasks.masked.recipe import MaskedRecipe, MaskedTextConfig, MaskedTraining
from clearhead.tasks.sizing import FittedRecipe, setting, steps_of, with_changes
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training.schedule import StableSchedule
from clearhead.wording import counted

# A text whose lines mostly end like this is a list of sentences or paragraphs.
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", '"', "”", "»", ")")
# Lines that are looked at, and the share of them that must end a sentence.
LINES, SHARE = 1000, 0.7


@dataclass(frozen=True)
class MaskedSize:
    """Settings for texts of up to a number of bytes."""

    bytes: float
    vocabulary: int
    layers: int
    width: int
    heads: int
    max_length: int
    epochs: float
    batch_tokens: int
    learning_rate: float


SIZES = (
    MaskedSize(300_000, 1000, 2, 64, 2, 128, 40, 2048, 1e-2),
    MaskedSize(5_000_000, 4000, 4, 128, 4, 128, 20, 4096, 1e-2),
    MaskedSize(50_000_000, 8000, 6, 256, 4, 256, 10, 16384, 5e-3),
    MaskedSize(500_000_000, 16000, 8, 384, 6, 512, 10, 65536, 3e-3),
    MaskedSize(float("inf"), 32000, 12, 768, 12, 512, 2, 131072, 2e-3),
)


@dataclass(frozen=True)
class FittedMasked(FittedRecipe):
    """A recipe and the text that it is sized to."""

    recipe: MaskedRecipe
    survey: Survey
    tokens: int
    """Estimated tokens per epoch."""

    def choices(self) -> list[str]:
        """The choices, one per line."""
        recipe, model, masking = self.recipe, self.recipe.model, self.recipe.masking
        epochs = recipe.training.steps * recipe.batches.tokens / self.tokens
        return [
            f"{text_line(self.survey)}; a document is a {recipe.data.documents} of plain text",
            f"tokenizer: {recipe.tokenizer.kind}, {recipe.tokenizer.vocabulary:,} tokens",
            f"model: width {model.width}, ffn_width {model.ffn_width}, {counted(model.layers, 'layer')}, "
            f"{counted(model.attention.heads, 'head')}, texts of up to {model.max_length} tokens",
            f"run: {counted(recipe.training.steps, 'step')} of {recipe.batches.tokens:,} tokens "
            f"({epochs:.3g} epochs), {masking.share:.0%} of them masked; validated every "
            f"{recipe.training.validate_every:,}; the best model is kept",
        ]


def fit_masked(
    paths: Sequence[str], changes: Sequence[str] = (), progress: ProgressCallback = ignore_progress
) -> FittedMasked:
    """Reads the text once and sizes a recipe to it; changes such as 'model.width=64' take precedence."""
    requested = apply_overrides({"data": {"train": list(paths)}}, changes)
    data = parse_settings(MaskedTextConfig, requested["data"], group="data")
    check_masked_texts(data)
    if setting(requested, "data", "documents") is None and _lines_are_documents(data):
        data = data.model_copy(update={"documents": "line"})
    corpus = MaskedCorpus(data, seed=1)
    corpus.example()
    with track_progress(corpus.paths(), progress):
        survey = corpus.survey
    size = next(size for size in SIZES if survey.bytes <= size.bytes)
    tokens = max(1, int(survey.bytes / BYTES_PER_TOKEN))
    usual = max(200, int(size.epochs * tokens / size.batch_tokens))
    recipe = _recipe(size, data, steps_of(requested, usual), bool(setting(requested, "masking", "causal")))
    return FittedMasked(with_changes(recipe, requested, changes), survey, tokens)


def _lines_are_documents(data: MaskedTextConfig) -> bool:
    """Whether most lines of the text end a sentence; lines of wrapped text do not."""
    corpus = MaskedCorpus(data.model_copy(update={"documents": "line"}), seed=1)
    lines = [
        chunk.text.rstrip() for chunk, _ in zip(corpus.documents(data.train), range(LINES), strict=False)
    ]
    return sum(line.endswith(SENTENCE_ENDS) for line in lines) >= SHARE * max(2, len(lines))


def _recipe(size: MaskedSize, data: MaskedTextConfig, steps: int, generates: bool) -> MaskedRecipe:
    """The recipe of a size, for a number of steps, of a model that also generates text or does not."""
    every = max(50, min(2000, steps // 10))
    shape: dict[str, Any] = {
        "preset": "modern",
        "width": size.width,
        # A gated network of this width has about as many weights as a plain one of 4 times the width.
        "ffn_width": 8 * size.width // 3 // 32 * 32,
        "layers": size.layers,
        "attention": {"heads": size.heads},
        "max_length": size.max_length,
        "head": {"kind": "masked_tokens", "predict_from": "previous" if generates else "mask"},
    }
    return MaskedRecipe(
        data=data,
        tokenizer=TokenizerConfig(vocabulary=size.vocabulary, lowercase=True),
        model=EncoderConfig.model_validate(shape),
        batches=TextBatchingConfig(tokens=size.batch_tokens),
        training=MaskedTraining(
            steps=steps,
            schedule=StableSchedule(
                learning_rate=size.learning_rate, warmup=max(1, min(500, steps // 20)), decay=0.6
            ),
            validate_every=every,
            save_every=every,
        ),
    )
