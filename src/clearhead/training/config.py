"""Settings of a training run, under [training] in a recipe."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from clearhead.config import Settings
from clearhead.training.devices import Device, Precision
from clearhead.training.optimizer import AdamConfig, MuonConfig, OptimizerConfig
from clearhead.training.schedule import InverseSquareRootSchedule, PaperSchedule, ScheduleConfig

# Steps from which on compiling pays off.
MIN_STEPS_TO_COMPILE = 2000


class AverageConfig(Settings):
    """The final weights are the mean of several saved ones."""

    count: PositiveInt = 5
    of: Literal["last", "best"] = "last"


class ParentConfig(Settings):
    """A model that this one descends from."""

    name: str
    parameters: int
    data: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names of its training files and shipped data sets."""


class TrainingConfig(Settings):
    """The defaults suit a base Transformer on a million sentence pairs."""

    steps: PositiveInt = 100_000
    optimizer: OptimizerConfig = AdamConfig()
    schedule: ScheduleConfig = InverseSquareRootSchedule()
    accumulate: PositiveInt = 1
    """Batches per optimizer step, over all ranks; at least one per rank."""
    parallel: Literal["data_parallel", "fsdp"] = "data_parallel"
    """What each of several ranks holds: the whole model, or a shard of a model too large for one GPU."""
    clip_norm: Annotated[float, Field(ge=0)] = 1.0
    """Maximum gradient norm; 0 disables clipping."""
    init_from: str | None = None
    """Folder of a trained model to start from; its tokenizer and architecture are used."""
    new_tokens: Annotated[int, Field(ge=0)] = 0
    """Maximum number of tokens added to the vocabulary of init_from for letters it lacks; 0 adds none."""
    init_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the weights of init_from in the final ones, to forget less (WiSE-FT, Wortsman et al. 2022)."""
    parents: Annotated[tuple[ParentConfig, ...], Field(strict=False)] = ()
    """The model that the run starts from, and its own parents; written by the run."""
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Decay of a moving average of the weights."""
    average: AverageConfig | None = None
    device: Device = "auto"
    precision: Precision = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    """auto: on a GPU, if the run is long enough to pay for it."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    report_every: PositiveInt = 50
    validate_every: PositiveInt = 1000
    save_every: PositiveInt = 1000
    save_minutes: Annotated[float, Field(gt=0)] = 10.0
    """Maximum minutes between two saved states."""
    keep_last: PositiveInt = 2
    keep_best: PositiveInt = 1
    monitor: str = "loss"
    """Validation metric that selects the best weights."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Validations without improvement before the run stops; 0 disables early stopping."""

    @model_validator(mode="after")
    def _optimizer_supports_shards(self) -> Self:
        if self.parallel == "fsdp" and isinstance(self.optimizer, MuonConfig):
            raise ValueError(
                "optimizer 'muon' needs whole matrices, which parallel 'fsdp' does not have; "
                "use 'adamw' or 'data_parallel'"
            )
        return self

    def resolved(self, on_gpu: bool, width: int | None = None) -> Self:
        """The settings without "auto", and with the model's width; a resumed run uses the same values."""
        changes = {}
        if self.compile == "auto":
            changes["compile"] = "on" if on_gpu and self.steps >= MIN_STEPS_TO_COMPILE else "off"
        if isinstance(self.schedule, PaperSchedule) and self.schedule.width is None:
            changes["schedule"] = self.schedule.model_copy(update={"width": width})
        return self.model_copy(update=changes)
