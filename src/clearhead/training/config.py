"""Everything that a recipe says under [training]."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from clearhead.config import Settings
from clearhead.training.criterion import DistillationConfig, RegulariserConfig
from clearhead.training.devices import Device, Precision
from clearhead.training.optimizer import AdamConfig, MuonConfig, OptimizerConfig
from clearhead.training.schedule import InverseSquareRootSchedule, ScheduleConfig

ParallelKind = Literal["data_parallel", "fsdp"]


class AverageConfig(Settings):
    """The published weights are the mean of this many saved ones."""

    count: PositiveInt = 5
    of: Literal["last", "best"] = "last"


class TrainingConfig(Settings):
    """The defaults suit a base Transformer on a corpus of a million pairs."""

    steps: PositiveInt = 100_000
    optimizer: OptimizerConfig = AdamConfig()
    schedule: ScheduleConfig = InverseSquareRootSchedule()
    accumulate: PositiveInt = 1
    """batches whose gradients make one step, over all ranks together; one a rank at least"""
    parallel: ParallelKind = "data_parallel"
    """what each of several ranks has: a copy of the model, or a shard of a model too large for one"""
    clip_norm: Annotated[float, Field(ge=0)] = 1.0
    """the longest gradient; longer ones are shortened to it; 0: none is"""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1
    regulariser: RegulariserConfig | None = None
    """what two passes over each sentence should agree in: rdrop or simcut; a step then costs about twice"""
    distillation: DistillationConfig | None = None
    init_from: str | None = None
    """folder of a trained model: its weights are the first ones; its tokenizer and shape are taken over"""
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    """the decay of a moving average of the weights"""
    average: AverageConfig | None = None
    device: Device = "auto"
    precision: Precision = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    """auto: on a GPU; a recipe's run only if it is long enough to earn it back"""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    report_every: PositiveInt = 50
    validate_every: PositiveInt = 1000
    save_every: PositiveInt = 1000
    save_minutes: Annotated[float, Field(gt=0)] = 10.0
    """the state is saved at least so often, between the turns too"""
    keep_last: PositiveInt = 2
    keep_best: PositiveInt = 1
    monitor: Literal["loss", "bleu"] = "loss"
    """what validation must improve"""
    patience: Annotated[int, Field(ge=0)] = 0
    """validations without improvement before the run ends; 0: it goes to the last step"""

    @model_validator(mode="after")
    def _shards_can_be_optimized(self) -> "TrainingConfig":
        if self.parallel == "fsdp" and isinstance(self.optimizer, MuonConfig):
            raise ValueError(
                "optimizer is 'muon', which needs whole matrices, but parallel is 'fsdp'; "
                "use 'adamw' or 'data_parallel'"
            )
        return self
