"""From gradients to steps: Adam, AdamW, and Muon for the hidden matrices."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.errors import TrainingError
from clearhead.layers.attention import Projections
from clearhead.training.muon import Muon

Decay = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Betas = Annotated[tuple[Share, Share], Field(strict=False)]
Small = Annotated[float, Field(gt=0)]

# Linear layers of these names end a model: their rows are tokens or classes, so they are no hidden matrices.
READOUTS = ("readout", "classifier")


class AdamConfig(Settings):
    """Kingma and Ba 2015, with the constants of Vaswani et al. 2017; weight decay is part of the gradient."""

    kind: Literal["adam"] = "adam"
    betas: Betas = (0.9, 0.98)
    eps: Small = 1e-9
    weight_decay: Decay = 0.0


class AdamWConfig(Settings):
    """Adam with weight decay beside the gradient (Loshchilov and Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    betas: Betas = (0.9, 0.98)
    eps: Small = 1e-9
    weight_decay: Decay = 0.01


class MuonConfig(Settings):
    """Momentum, orthogonalised, for the hidden matrices (Jordan et al. 2024); AdamW for all else.

    The step of a matrix is scaled to the size of an AdamW step (Liu et al. 2025), so that one schedule serves
    both; `adam_factor` is the rate of the AdamW part relative to it.
    """

    kind: Literal["muon"] = "muon"
    momentum: Share = 0.95
    weight_decay: Decay = 0.01
    adam_factor: Annotated[float, Field(gt=0)] = 1.0
    betas: Betas = (0.9, 0.98)
    eps: Small = 1e-9


OptimizerConfig = Annotated[AdamConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")]


class Optimizer:
    """One optimizer over all parameters of a model, whatever it is made of inside.

    Weight decay falls on hidden matrices only, never on embeddings, readouts, norms and biases. torch's Muon
    orthogonalises a parameter as a whole; that of an attention's projections is therefore given to it as
    several parameters that share its memory. So build the optimizer when the model is on its device, and
    change weights in place only.
    """

    def __init__(self, model: nn.Module, config: OptimizerConfig):
        self.kind = config.kind
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        hidden = {name: p for name, p in hidden_matrices(model).items() if p.requires_grad}
        others = {name: p for name, p in model.named_parameters() if p.requires_grad and name not in hidden}
        self._parts: dict[str, _Part] = {}
        if isinstance(config, MuonConfig):
            sizes = {id(one.weight): one.sizes for one in model.modules() if isinstance(one, Projections)}
            for name, whole in hidden.items():
                self._parts.update(_parts(name, whole, sizes.get(id(whole), (len(whole),))))
            matrices = {name: part.matrix for name, part in self._parts.items()}
            self._members = [
                _Member(_muon(matrices, config), matrices, 1.0),
                _Member(_adam({}, others, config), others, config.adam_factor),
            ]
        else:
            self._members = [_Member(_adam(hidden, others, config), hidden | others, 1.0)]

    @property
    def skips(self) -> bool:
        """Whether a broken step can be skipped without the processor knowing of it."""
        return all(isinstance(member.inner, torch.optim.Adam | Muon) for member in self._members)

    def step(self, rate: float, broken: Tensor | None = None, divisor: Tensor | None = None) -> None:
        """Moves the weights along their gradients; an optimizer that skips does not where `broken` is 1.

        Gradients are divided by the divisor on the way.
        """
        for matrix, whole, rows in self._parts.values():
            matrix.grad = None if whole.grad is None else whole.grad[rows]
        for member in self._members:
            member.step(rate, broken, divisor)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        for part in self._parts.values():
            part.matrix.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The moments of each parameter by its name; the tensors are those in use, not copies."""
        moments = {name: of for member in self._members for name, of in member.moments().items()}
        return {"kind": self.kind, "moments": moments}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["kind"] != self.kind:
            raise TrainingError(
                f"training.optimizer: the run began with {state['kind']!r}, not with {self.kind!r}"
            )
        # Parameters that never had a gradient have no moments.
        moments = state.get("moments", {})
        foreign = moments.keys() - {name for member in self._members for name in member.names}
        if foreign:
            raise TrainingError(f"optimizer: the saved state knows {min(foreign)}, which this model lacks")
        for member in self._members:
            member.load(moments)


def hidden_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of linear layers, without readouts and without those that are also something else."""
    inside: set[int] = set()
    outside: set[int] = set()
    for name, module in model.named_modules():
        linear = isinstance(module, nn.Linear) and name.rpartition(".")[2] not in READOUTS
        for kind, parameter in module.named_parameters(recurse=False):
            (inside if linear and kind == "weight" else outside).add(id(parameter))
    return {name: p for name, p in model.named_parameters() if id(p) in inside - outside}


class _Member:
    """One of torch's optimizers, with a name for each of its parameters in their order."""

    def __init__(self, inner: torch.optim.Optimizer, names: Iterable[str], factor: float):
        self.inner = inner
        self.names = list(names)
        self.factor = factor

    def step(self, rate: float, broken: Tensor | None, divisor: Tensor | None) -> None:
        for group in self.inner.param_groups:
            group["lr"] = rate * self.factor
        # The names by which torch's fused optimizers know them.
        self.inner.found_inf = broken  # pyright: ignore[reportAttributeAccessIssue]
        self.inner.grad_scale = divisor  # pyright: ignore[reportAttributeAccessIssue]
        self.inner.step()

    def moments(self) -> dict[str, dict[str, Tensor]]:
        found = self.inner.state_dict()["state"]
        return {self.names[index]: of for index, of in found.items()}

    def load(self, moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        # torch keeps the tensors it is given: without copies they would be shared with the caller.
        state = {
            index: {key: moment.clone() for key, moment in moments[name].items()}
            for index, name in enumerate(self.names)
            if name in moments
        }
        self.inner.load_state_dict({**self.inner.state_dict(), "state": state})


class _Part(NamedTuple):
    """A matrix inside a parameter, in the same memory."""

    matrix: Tensor
    whole: nn.Parameter
    rows: slice


def _parts(name: str, whole: nn.Parameter, sizes: tuple[int, ...]) -> Iterator[tuple[str, _Part]]:
    end = 0
    for part, rows in enumerate(sizes):
        place = slice(end, end + rows)
        end += rows
        yield name if len(sizes) == 1 else f"{name}[{part}]", _Part(whole.detach()[place], whole, place)


def _muon(matrices: Mapping[str, Tensor], config: MuonConfig) -> torch.optim.Optimizer:
    return Muon(matrices.values(), config.momentum, config.weight_decay)


def _adam(
    hidden: Mapping[str, Tensor], others: Mapping[str, Tensor], config: AdamConfig | AdamWConfig | MuonConfig
) -> torch.optim.Optimizer:
    kind = torch.optim.Adam if isinstance(config, AdamConfig) else torch.optim.AdamW
    return kind(
        [
            {"params": list(hidden.values()), "weight_decay": config.weight_decay},
            {"params": list(others.values()), "weight_decay": 0.0},
        ],
        betas=config.betas,
        eps=config.eps,
        fused=True,
    )
