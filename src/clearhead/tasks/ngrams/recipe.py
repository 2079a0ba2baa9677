"""Settings of a run that counts n-grams."""

from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator

from clearhead.models import NgramConfig
from clearhead.tasks.language.recipe import PlainTextConfig, Texts
from clearhead.tasks.recipe import Recipe
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import TrainingConfig

Unit = Literal["lines", "documents"]
# The settings of a training run that have a meaning where nothing is trained step by step.
MEANINGFUL = ("seed", "device")


class NgramText(PlainTextConfig):
    """The text to count."""

    FILES: ClassVar = ("train", "validation", "test")

    test: Texts = ()
    """Text that `clearhead evaluate` scores. Default: the validation text."""
    sentences: Unit = "lines"
    """What <s> and </s> enclose: each line that is not blank, or each document."""


class NgramRecipe(Recipe):
    """A run that counts n-grams."""

    kind: Literal["ngrams"] = "ngrams"
    data: NgramText
    tokenizer: TokenizerConfig = TokenizerConfig(kind="whitespace", vocabulary=1_000_000)
    model: NgramConfig = NgramConfig()

    @field_validator("tokenizer")
    @classmethod
    def _check_tokenizer(cls, tokenizer: TokenizerConfig) -> TokenizerConfig:
        if tokenizer.dropout:
            raise ValueError("dropout would change the text from one pass to the next; leave it out")
        if tokenizer.kind in ("character", "bytes"):
            if tokenizer.normalize:
                raise ValueError(
                    f"normalize would change the text that kind {tokenizer.kind} keeps; leave it out"
                )
            return tokenizer.model_copy(update={"normalize": False})
        return tokenizer

    @field_validator("training")
    @classmethod
    def _check_training(cls, training: TrainingConfig) -> TrainingConfig:
        for name in set(TrainingConfig.model_fields) - {*MEANINGFUL}:
            if getattr(training, name) != TrainingConfig.model_fields[name].default:
                raise ValueError(f"{name} has no meaning for n-grams, which are counted once; leave it out")
        return training

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resolved(self, on_gpu: bool) -> Self:
        return self

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"})
        return {**groups, "data": self.data.without_files()}
