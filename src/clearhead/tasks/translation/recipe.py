"""What a translation recipe says: the settings of every room, in one file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from clearhead.config import Settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.cleaning import CleaningConfig
from clearhead.data.datasets import SHIPPED
from clearhead.data.sources.corpus import Place
from clearhead.errors import TextError
from clearhead.models import TranslatorConfig
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import SearchConfig
from clearhead.text.languages import check
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import RegulariserConfig, TrainingConfig

PARTS = ("train", "validation", "test")
# A file or a shipped data set by name; or two aligned files, the source's first.
File = Annotated[str | tuple[str, str], Field(union_mode="left_to_right")]
Files = Annotated[tuple[File, ...], Field(strict=False)]
Columns = Annotated[tuple[int | str, int | str], Field(strict=False)]


class HoldOut(Settings):
    """How many pairs are kept from training where no files are given for the purpose."""

    validation: NonNegativeInt = 1000
    test: NonNegativeInt = 1000


class CorpusConfig(Settings):
    """Pairs of two languages: where they are, and which directions a model learns from them."""

    source: str
    target: str
    both: bool = False
    """Learn the other direction too."""
    train: Files
    """Files, shipped data sets by name, or lists of two aligned files."""
    validation: Files = ()
    """Left out: pairs of the training files, see hold_out."""
    test: Files = ()
    """Left out: pairs of the training files, see hold_out."""
    columns: Columns | None = None
    """Numbers from 0 or names in the header, source first; left out, the customary ones."""

    @field_validator("source", "target")
    @classmethod
    def _is_a_language(cls, code: str) -> str:
        try:
            return check(code)
        except TextError as error:
            raise ValueError(str(error)) from None

    @field_validator("train", "validation", "test", mode="before")
    @classmethod
    def _names_files(cls, files: object, info: ValidationInfo) -> object:
        """Aligned files are lists in TOML, and tuples from here on."""
        if not isinstance(files, list | tuple):
            raise ValueError(f"{files!r} is not a list of files; write [{files!r}]")
        if not files and info.field_name == "train":
            raise ValueError("names no file")
        for file in files:
            if not isinstance(file, str) and not (isinstance(file, list | tuple) and len(file) == 2):
                raise ValueError(f"{file!r} is neither a file nor two aligned ones, source first")
        return tuple(tuple(file) if isinstance(file, list) else file for file in files)

    def anchored(self) -> "CorpusConfig":
        """The same with whole paths."""
        parts = {part: tuple(map(_whole, getattr(self, part))) for part in PARTS}
        return self.model_copy(update=parts)

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def directions(self) -> tuple[Direction, ...]:
        """What a model learns from it."""
        there = Direction(self.source, self.target)
        return (there, there.turned) if self.both else (there,)

    @property
    def paths(self) -> list[Place]:
        return [*self.train, *self.validation, *self.test]


class DataConfig(Settings):
    """Which pairs a model learns from. A single corpus may stand in [data] itself, without corpora.

    Where there is more than one language to translate into, the model reads before each source which one is
    wanted (Johnson et al. 2017).
    """

    corpora: Annotated[tuple[CorpusConfig, ...], Field(strict=False, min_length=1)]
    """Each as [[data.corpora]]."""
    hold_out: HoldOut = HoldOut()
    cleaning: CleaningConfig = CleaningConfig()

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_single_corpus(cls, values: Any, build: Any) -> "DataConfig":
        """What stands in [data] itself, as the only corpus; all mistakes are told, under the names used."""
        if not isinstance(values, Mapping):
            return build(values)
        its_own = {name: values[name] for name in values if name in CorpusConfig.model_fields}
        if "corpora" in values:
            if its_own:
                raise ValueError(f"{next(iter(its_own))} stands beside corpora; move it into one of them")
            return build(values)
        others = {name: values[name] for name in values if name not in its_own}
        corpus, mistakes = _tried(CorpusConfig.model_validate, its_own)
        # Where it is wrong itself, any other will do to find what else is.
        data, more = _tried(build, {**others, "corpora": (corpus or CorpusConfig.model_construct(),)})
        if mistakes or more:
            raise ValidationError.from_exception_data(cls.__name__, mistakes + more)
        return data

    @model_serializer(mode="wrap")
    def _as_written(self, serialize: Any) -> dict[str, Any]:
        values = serialize(self)
        if len(self.corpora) == 1 and "corpora" in values:
            [single] = values.pop("corpora")
            return {**single, **values}
        return values

    @classmethod
    def names(cls) -> list[str]:
        return [*CorpusConfig.model_fields, *cls.model_fields]

    def anchored(self) -> "DataConfig":
        """The same with whole paths, so that a run can be resumed from any folder."""
        return self.model_copy(update={"corpora": tuple(corpus.anchored() for corpus in self.corpora)})

    def without_files(self) -> dict[str, Any]:
        """Everything but the places of the files, which are known by what they hold."""
        return self.model_dump(mode="json", exclude={"corpora": {"__all__": set(PARTS)}})

    @property
    def directions(self) -> tuple[Direction, ...]:
        """From which language into which, each once."""
        return tuple(dict.fromkeys(one for corpus in self.corpora for one in corpus.directions))

    @property
    def languages(self) -> tuple[str, ...]:
        """All that are read or written, each once."""
        return tuple(dict.fromkeys(code for corpus in self.corpora for code in corpus.languages))

    @property
    def paths(self) -> list[Place]:
        """Everything that training reads, for naming what was made of it."""
        return [place for corpus in self.corpora for place in corpus.paths]

    def holds_out(self, part: Literal["validation", "test"]) -> bool:
        """Whether there will be pairs in a part."""
        return bool(getattr(self.hold_out, part)) or any(getattr(one, part) for one in self.corpora)


def _tried(build: Callable[[Any], Any], values: Any) -> tuple[Any, list[Any]]:
    """What is built of the values, if anything, and the mistakes in them."""
    try:
        return build(values), []
    except ValidationError as error:
        return None, cast(list[Any], error.errors())


def _whole(file: str | tuple[str, str]) -> str | tuple[str, str]:
    if isinstance(file, tuple):
        return str(Path(file[0]).absolute()), str(Path(file[1]).absolute())
    return file if file in SHIPPED and not Path(file).exists() else str(Path(file).absolute())


class DistillationConfig(Settings):
    """Knowledge distillation at every token (Hinton et al. 2015; Kim and Rush 2016).

    The loss is 1 - weight times the cross-entropy with the labels, plus weight times the divergence from the
    teacher, which runs in evaluation mode.
    """

    teacher: str
    """Folder of a model; its tokenizer is used."""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5


class TranslationTraining(TrainingConfig):
    """The training settings of a translator."""

    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1
    regulariser: RegulariserConfig | None = None
    """Compares two passes over each sentence: rdrop or simcut; a step then takes about twice as long."""
    distillation: DistillationConfig | None = None
    monitor: Literal["loss", "bleu"] = "loss"  # pyright: ignore
    """Validation metric that selects the best weights."""


class ValidationConfig(Settings):
    """How a run looks at itself: the loss always, and BLEU of so many of the sentences."""

    sentences: NonNegativeInt = 500
    beam: PositiveInt = 1


class TranslationRecipe(Settings):
    """Everything that decides what a run will give."""

    kind: Literal["translation"] = "translation"
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: TranslatorConfig = TranslatorConfig()
    batches: BatchingConfig = BatchingConfig()
    training: TranslationTraining = TranslationTraining()
    validation: ValidationConfig = ValidationConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _rows_suit_the_model(self) -> "TranslationRecipe":
        if self.batches.kind == "packed" and not self.model.packs:
            raise ValueError(
                "batches.kind is 'packed', but fraction positions and the location score need a row for each "
                "sentence; use 'padded'"
            )
        return self

    def settled(self, on_gpu: bool) -> "TranslationRecipe":
        """The same with nothing left to be chosen by the machine, so that a run goes on as it began."""
        batches = self.batches
        if batches.kind == "auto":
            kind = "packed" if on_gpu and self.model.packs else "padded"
            batches = batches.model_copy(update={"kind": kind})
        training = self.training.resolved(on_gpu, self.model.width)
        return self.model_copy(update={"batches": batches, "training": training})

    @model_validator(mode="after")
    def _what_stops_the_run_is_measured(self) -> "TranslationRecipe":
        held_out = self.data.holds_out("validation")
        if self.training.monitor == "bleu" and not held_out:
            raise ValueError("training.monitor is 'bleu', but no sentences are kept for validation")
        if self.training.monitor == "bleu" and not self.validation.sentences:
            raise ValueError(
                "training.monitor is 'bleu', but validation.sentences is 0; let it be some hundred"
            )
        if self.training.average and self.training.average.of == "best" and not held_out:
            raise ValueError("training.average.of is 'best', but no sentences are kept for validation")
        return self
