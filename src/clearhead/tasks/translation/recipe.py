"""Settings of a translation run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveInt,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from clearhead.checkpoint import SETTINGS
from clearhead.config import Settings, read_toml
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.cleaning import CleaningConfig
from clearhead.data.datasets import SHIPPED, absolute_path
from clearhead.data.sources.corpus import DataPath
from clearhead.errors import ModelError, TextError
from clearhead.models import Seq2SeqConfig, TranslatorConfig
from clearhead.tasks.init_from import (
    INIT_FROM,
    model_folder,
    naming,
    tokenizer_of,
    with_model_of,
    with_tokenizer,
)
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.translation.directions import (
    UNK,
    Direction,
    has_tags,
    saved_directions,
    tag_ids,
    tags,
    targets,
)
from clearhead.tasks.translation.options import SearchConfig
from clearhead.text.languages import check_language
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import RegulariserConfig, TrainingConfig

PARTS = ("train", "validation", "test")
TEACHER = "training.distillation.teacher"
# A file or a shipped data set by name; or two aligned files, source first.
File = Annotated[str | tuple[str, str], Field(union_mode="left_to_right")]
Files = Annotated[tuple[File, ...], Field(strict=False)]
Columns = Annotated[tuple[int | str, int | str], Field(strict=False)]


class HoldOut(Settings):
    """How many training pairs to hold out for parts without files."""

    validation: NonNegativeInt = 1000
    test: NonNegativeInt = 1000
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    """Which pairs are held out. Default: training.seed. Set it to compare runs with several seeds."""


class CorpusConfig(Settings):
    """Pairs of two languages: files, and the directions to train."""

    source: str
    target: str
    both: bool = False
    """Also train the other direction."""
    train: Files
    """Files, shipped data sets by name, or lists of two aligned files."""
    validation: Files = ()
    """Default: pairs of the training files (see hold_out)."""
    test: Files = ()
    """Default: pairs of the training files (see hold_out)."""
    train_only: bool = False
    """Hold nothing out, for example of machine translations; the splits of other corpora stay the same."""
    repeat: PositiveInt = 1
    """How often an epoch contains each training pair; raise it for a small corpus beside large ones."""
    columns: Columns | None = None
    """Columns of source and target, numbered from 0 or named. Default: found by language or name."""

    sample: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the training pairs to use, always the same ones; nothing is held out from a sample."""
    without: Files = ()
    """Files whose sentences a sample must not contain, such as the test set of another model."""

    @field_validator("source", "target")
    @classmethod
    def _check_language(cls, code: str) -> str:
        try:
            return check_language(code)
        except TextError as error:
            raise ValueError(str(error)) from None

    @field_validator("train", "validation", "test", "without", mode="before")
    @classmethod
    def _check_files(cls, files: object, info: ValidationInfo) -> object:
        """Aligned files are lists in TOML and tuples here."""
        if not isinstance(files, list | tuple):
            raise ValueError(f"{files!r} is not a list of files; write [{files!r}]")
        if not files and info.field_name == "train":
            raise ValueError("is empty; name a file")
        for file in files:
            if not isinstance(file, str) and not (isinstance(file, list | tuple) and len(file) == 2):
                raise ValueError(f"{file!r} is neither a file nor a list of two aligned files, source first")
        return tuple(tuple(file) if isinstance(file, list) else file for file in files)

    def absolute(self) -> "CorpusConfig":
        """The same corpus with absolute paths."""
        parts = {part: tuple(map(_absolute, getattr(self, part))) for part in (*PARTS, "without")}
        return self.model_copy(update=parts)

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions to train on it."""
        there = Direction(self.source, self.target)
        return (there, there.turned) if self.both else (there,)

    @property
    def paths(self) -> list[DataPath]:
        return [*self.train, *self.validation, *self.test, *self.without]


class DataConfig(Settings):
    """The training pairs. A single corpus may be written directly in [data], without corpora.

    With several target languages, a tag before each source selects one (Johnson et al. 2017).
    """

    corpora: Annotated[tuple[CorpusConfig, ...], Field(strict=False, min_length=1)]
    """One [[data.corpora]] table each."""
    hold_out: HoldOut = HoldOut()
    mix: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of pairs taken from the training data of training.init_from, to forget less of it."""
    cleaning: CleaningConfig = CleaningConfig()

    @model_validator(mode="wrap")
    @classmethod
    def _accept_single_corpus(cls, values: Any, build: Any) -> "DataConfig":
        """Reads settings in [data] itself as the only corpus; mistakes keep the paths that the user wrote."""
        if not isinstance(values, Mapping):
            return build(values)
        own = {name: values[name] for name in values if name in CorpusConfig.model_fields}
        if "corpora" in values:
            if own:
                raise ValueError(f"{next(iter(own))} is set beside corpora; move it into one of them")
            return build(values)
        others = {name: values[name] for name in values if name not in own}
        corpus, mistakes = _tried(CorpusConfig.model_validate, own)
        # A placeholder for an invalid corpus, so that other mistakes are reported too.
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

    def absolute(self) -> "DataConfig":
        """The same data with absolute paths."""
        return self.model_copy(update={"corpora": tuple(corpus.absolute() for corpus in self.corpora)})

    def without_files(self) -> dict[str, Any]:
        """All settings but the paths: files are recognised by their content."""
        return self.model_dump(mode="json", exclude={"corpora": {"__all__": {*PARTS, "without"}}})

    @property
    def directions(self) -> tuple[Direction, ...]:
        """All directions, each once."""
        return tuple(dict.fromkeys(one for corpus in self.corpora for one in corpus.directions))

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages, each once."""
        return tuple(dict.fromkeys(code for corpus in self.corpora for code in corpus.languages))

    @property
    def paths(self) -> list[DataPath]:
        """All files that the run reads."""
        return [path for corpus in self.corpora for path in corpus.paths]

    def holds_out(self, part: Literal["validation", "test"]) -> bool:
        """Whether a part will have pairs."""
        return bool(getattr(self.hold_out, part)) or any(getattr(one, part) for one in self.corpora)


def _tried(build: Callable[[Any], Any], values: Any) -> tuple[Any, list[Any]]:
    """The parsed value, if valid, and the mistakes."""
    try:
        return build(values), []
    except ValidationError as error:
        return None, cast(list[Any], error.errors())


def _absolute(file: str | tuple[str, str]) -> str | tuple[str, str]:
    if isinstance(file, tuple):
        return str(Path(file[0]).absolute()), str(Path(file[1]).absolute())
    return absolute_path(file, SHIPPED)


class ValidationConfig(Settings):
    """What validation computes besides the loss."""

    sentences: NonNegativeInt = 500
    """Sentences to compute BLEU on; 0 computes none."""
    beam: PositiveInt = 1


class DistillationConfig(Settings):
    """Knowledge distillation at every token (Hinton et al. 2015; Kim and Rush 2016).

    The loss is 1 - weight times the cross-entropy with the labels, plus weight times the divergence from the
    teacher, which runs in evaluation mode.
    """

    teacher: str
    """Folder of a model; its tokenizer is used."""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5


class TranslationTraining(TrainingConfig):
    """Defaults for a base Transformer on a million sentence pairs."""

    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1
    regulariser: RegulariserConfig | None = None
    """Compares two passes over each sentence: rdrop or simcut; a step then takes about twice as long."""
    distillation: DistillationConfig | None = None
    copying: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of pairs in which names and numbers become placeholders, which teaches the model to copy; needs a
    tokenizer with byte fallback."""
    monitor: Literal["loss", "bleu"] = "loss"  # pyright: ignore
    """Validation metric that selects the best weights."""


def _kind_of_model(values: Any) -> str:
    """The kind that settings name; a translator by default."""
    default = TranslatorConfig().kind
    return values.get("kind", default) if isinstance(values, Mapping) else getattr(values, "kind", default)


ModelConfig = Annotated[
    Annotated[TranslatorConfig, Tag("translator")] | Annotated[Seq2SeqConfig, Tag("seq2seq")],
    Discriminator(_kind_of_model),
]


class TranslationRecipe(Recipe):
    """A run that trains a translator."""

    kind: Literal["translation"] = "translation"
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = TranslatorConfig()
    batches: BatchingConfig = BatchingConfig()
    training: TranslationTraining = TranslationTraining()  # pyright: ignore[reportIncompatibleVariableOverride]
    validation: ValidationConfig = ValidationConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.batches.kind == "packed" and not self.model.packs:
            raise ValueError(
                "batches.kind is 'packed', but fraction positions, the location score and recurrent models "
                "need a row for each sentence; use 'padded'"
            )
        if self.training.parallel == "fsdp" and not self.model.shards:
            raise ValueError(
                "training.parallel is 'fsdp', but recurrent models cannot be sharded; use 'data_parallel'"
            )
        if self.data.mix and not self.training.init_from:
            raise ValueError("data.mix takes pairs of training.init_from, which is missing; name a model")
        held_out = self.data.holds_out("validation")
        if self.training.monitor == "bleu" and not held_out:
            raise ValueError("training.monitor is 'bleu', but no pairs are held out for validation")
        if self.training.monitor == "bleu" and not self.validation.sentences:
            raise ValueError(
                "training.monitor is 'bleu', but validation.sentences is 0; set it to a few hundred"
            )
        self.check_average(held_out, "no pairs are")
        return self

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resolved(self, on_gpu: bool) -> Self:
        recipe = super().resolved(on_gpu)
        if self.batches.kind != "auto":
            return recipe
        kind = "packed" if on_gpu and self.model.packs else "padded"
        return recipe.model_copy(update={"batches": self.batches.model_copy(update={"kind": kind})})

    def inherited(self) -> Self:
        """The same recipe with the tokenizer and architecture of the model that it starts from.

        Without one, the tokenizer is the teacher's.
        """
        training, paths = self.training, {}
        if training.init_from:
            paths["init_from"] = model_folder(INIT_FROM, training.init_from)
        if training.distillation:
            teacher = model_folder(TEACHER, training.distillation.teacher)
            paths["distillation"] = training.distillation.model_copy(update={"teacher": teacher})
        recipe = self.model_copy(update={"training": training.model_copy(update=paths)})
        tokenizer = recipe.inherited_tokenizer()
        if tokenizer is None:
            return recipe
        recipe._check_languages(tokenizer)
        recipe = with_tokenizer(recipe, tokenizer)
        start = recipe.training.init_from
        if not start:
            return recipe
        # Not at the top of the file: it needs the settings here.
        from clearhead.tasks.translation.mixing import with_parent_data

        return with_parent_data(with_model_of(recipe, Path(start)), Path(start))

    def inherited_tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the model that the run starts from, or of its teacher; they must agree."""
        distillation = self.training.distillation
        return tokenizer_of(
            {INIT_FROM: self.training.init_from, TEACHER: distillation.teacher if distillation else None}
        )

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data", "search"})
        return {**groups, "data": self.data.without_files()}

    @property
    def has_test_data(self) -> bool:
        return self.data.holds_out("test")

    @classmethod
    def variants(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(map(str, saved_directions(settings)))

    @classmethod
    def usage(cls, settings: Mapping[str, Any]) -> str:
        directions = saved_directions(settings)
        return f" --to {directions[0].target}" if tags(directions) else ""

    def _check_languages(self, tokenizer: Tokenizer) -> None:
        """Checks that the tokenizer has all tags, and that the teacher translates all directions."""
        directions = self.data.directions
        if self.training.distillation:
            folder = Path(self.training.distillation.teacher)
            with naming(TEACHER):
                known = saved_directions(read_toml(folder / SETTINGS))
            missing = [str(direction) for direction in directions if direction not in known]
            if missing:
                raise ModelError(
                    f"{TEACHER}: {folder} translates {', '.join(map(str, known))}, not {', '.join(missing)}; "
                    "name another teacher"
                )
        if self.training.init_from and self.training.new_tokens:
            self._check_extensible(tokenizer, Path(self.training.init_from))
            return
        with naming(INIT_FROM if self.training.init_from else TEACHER):
            tag_ids(directions, tokenizer)

    def _check_extensible(self, tokenizer: Tokenizer, parent: Path) -> None:
        """Checks that the parent can learn the target languages; a model with tags can learn any."""
        known = targets(saved_directions(read_toml(parent / SETTINGS)))
        new = [code for code in targets(self.data.directions) if code not in known]
        if new and UNK not in known and not has_tags(tokenizer):
            raise ModelError(
                f"{INIT_FROM}: {parent.name} translates into {', '.join(known)} only, not {', '.join(new)}; "
                "start from a model for several languages such as en-de-fr, or train a new one "
                "(clearhead train --pairs)"
            )
