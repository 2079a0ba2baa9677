"""Settings of a run that counts n-grams."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from clearhead.config import Settings
from clearhead.models import NgramConfig
from clearhead.tasks.language.recipe import PlainTextConfig
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.split_files import Files
from clearhead.text.tokenizer import TokenizerConfig

Unit = Literal["lines", "documents"]


class CountingConfig(Settings):
    """Counting is one pass over the text on a CPU, so there is little to set."""

    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    """Selects the documents that are held out."""
    # What a run needs of every recipe.
    device: ClassVar = "cpu"
    accumulate: ClassVar = 1
    parallel: ClassVar = "data_parallel"
    average: ClassVar = None
    keep_last: ClassVar = 1
    keep_best: ClassVar = 1


class NgramText(PlainTextConfig):
    """The text to count."""

    FILES: ClassVar = ("train", "validation", "test")

    test: Files = ()
    """Text that `clearhead evaluate` scores. Default: the validation text."""
    sentences: Unit = "lines"
    """What <s> and </s> enclose: each line that is not blank, or each document."""


class NgramRecipe(Recipe):
    """A run that counts n-grams."""

    kind: Literal["ngrams"] = "ngrams"
    data: NgramText
    tokenizer: TokenizerConfig = TokenizerConfig(kind="whitespace", vocabulary=1_000_000)
    model: NgramConfig = NgramConfig()
    training: CountingConfig = CountingConfig()  # pyright: ignore[reportIncompatibleVariableOverride]

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

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resolved(self, on_gpu: bool) -> Self:
        return self

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"})
        return {**groups, "data": self.data.without_files()}
