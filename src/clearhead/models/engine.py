"""The copy of a model that decodes fastest."""

import logging
from typing import Any, Literal, get_args

from torch import nn

from clearhead.accel import enabled, int8
from clearhead.accel.packing import Packed
from clearhead.errors import SettingsError
from clearhead.layers.block import BlockConfig
from clearhead.models.causal import CausalModel
from clearhead.models.cuda_graph import CudaGraphGPT, is_tapped
from clearhead.models.encoder_decoder import TransformerDecoding
from clearhead.models.slots import SlotEngine
from clearhead.models.static_step import StepEngine, supports_static_caches

log = logging.getLogger(__name__)
Precision = Literal["fp32", "bf16", "int8"]


class Engine:
    """The copy of a model that decodes, made when it is first needed and again after the weights changed.

    The model stays as it is. While it is tapped, the model itself decodes, so that the tap sees every step.
    """

    def __init__(self, model: nn.Module, precision: Precision = "fp32"):
        self.model, self.precision = model, usable_precision(precision, model)
        self._packed = Packed(model, model.readout_weight, self.precision)  # pyright: ignore
        self._made: tuple[Any, Any] = None, None

    def current(self) -> Any:
        """What decodes now; it has the `start` and `step` of the model."""
        if not isinstance(self.model, CausalModel | TransformerDecoding) or is_tapped(self.model):
            return self.model
        copy = self._packed.current()
        if copy is not self._made[0]:
            self._made = copy, self._wrapped(copy)
        return self._made[1]

    def _wrapped(self, copy: Any) -> Any:
        config = copy.config
        if not enabled() or not isinstance(config, BlockConfig) or not supports_static_caches(config):
            return copy
        if copy.readout_weight.device.type == "cpu":
            return StepEngine(copy)
        if isinstance(copy, CausalModel):
            return CudaGraphGPT(copy)
        return SlotEngine(copy) if config.attention.score in ("dot", "scaled") else copy


def check_precision(precision: Any) -> Precision:
    """The precision itself; raises SettingsError if it is unknown."""
    if precision not in get_args(Precision):
        raise SettingsError(f"precision: {precision!r} is not one of {', '.join(get_args(Precision))}")
    return precision


def usable_precision(precision: Precision, model: Any) -> Precision:
    """The precision, or the next best that the model's device has."""
    device = model.readout_weight.device.type
    if precision == "int8" and (reason := int8_problem(device)):
        fallback = "fp32" if device == "cpu" else "bf16"
        log.warning("precision: int8 is not available, because %s; using %s", reason, fallback)
        return fallback
    return precision


def int8_problem(device: str) -> str:
    """Why a type of device cannot decode in int8; empty if it can."""
    if device != "cpu":
        return "it needs a CPU"
    if not enabled():
        return "CLEARHEAD_ACCEL is off"
    return "" if int8.supported() else "the processor has no VNNI instructions"
