"""Optimizers: Adam, AdamW, and Muon for hidden matrices."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from clearhead.accel.torch_private import divide_all_
from clearhead.config import Settings
from clearhead.errors import TrainingError
from clearhead.layers.attention import Projections
from clearhead.models.anatomy import anatomy_of

WeightDecay = Annotated[float, Field(ge=0)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Betas = Annotated[tuple[Momentum, Momentum], Field(strict=False)]
Epsilon = Annotated[float, Field(gt=0)]

# Linear layers whose paths end so are the last of a model; their rows are tokens or classes.
READOUTS = (".readout", ".classifier", ".head.output", ".head.score")
# The quintic whose iteration moves all singular values towards 1 (Jordan et al. 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
EPSILON = 1e-7


class AdamConfig(Settings):
    """Kingma and Ba 2015, with the constants of Vaswani et al. 2017; weight decay is part of the gradient."""

    kind: Literal["adam"] = "adam"
    betas: Betas = (0.9, 0.98)
    eps: Epsilon = 1e-9
    weight_decay: WeightDecay = 0.0


class AdamWConfig(Settings):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    betas: Betas = (0.9, 0.98)
    eps: Epsilon = 1e-9
    weight_decay: WeightDecay = 0.01
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Learning rate of a block relative to that of the block above it; below 1 it protects what the lower
    blocks of a pre-trained model have learned (Howard and Ruder 2018, Clark et al. 2020)."""


class MuonConfig(Settings):
    """Orthogonalised momentum for hidden matrices (Jordan et al. 2024); AdamW for all other parameters.

    Steps are scaled to the size of AdamW steps (Liu et al. 2025), so that one schedule fits both;
    `adam_factor` is the learning rate of the AdamW part relative to it.
    """

    kind: Literal["muon"] = "muon"
    momentum: Momentum = 0.95
    weight_decay: WeightDecay = 0.01
    adam_factor: Annotated[float, Field(gt=0)] = 1.0
    betas: Betas = (0.9, 0.98)
    eps: Epsilon = 1e-9


OptimizerConfig = Annotated[AdamConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")]


class Optimizer:
    """One optimizer over all parameters of a model, made of one or two torch optimizers.

    Weight decay applies to hidden matrices only, not to embeddings, readouts, norms and biases. Muon
    orthogonalises whole matrices, so the packed projections of an attention are given to it as several
    matrices that share their memory. Build the optimizer after moving the model to its device, and change
    weights in place only.
    """

    def __init__(self, model: nn.Module, config: OptimizerConfig):
        self.kind = config.kind
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        hidden = {name: p for name, p in hidden_matrices(model).items() if p.requires_grad}
        others = {name: p for name, p in model.named_parameters() if p.requires_grad and name not in hidden}
        self._parts: dict[str, _Part] = {}
        self._members: list[_Member] = []
        if isinstance(config, MuonConfig):
            sizes = {id(one.weight): one.sizes for one in model.modules() if isinstance(one, Projections)}
            for name, whole in hidden.items():
                self._parts.update(_parts(name, whole, sizes.get(id(whole), (len(whole),))))
            matrices = {name: part.matrix for name, part in self._parts.items()}
            self._members = [
                _Member(Muon(matrices.values(), config.momentum, config.weight_decay), matrices, 1.0),
                _Member(_adam({}, others, config), others, config.adam_factor),
            ]
        else:
            decay = config.layer_decay if isinstance(config, AdamWConfig) else 1.0
            levels = levels_below_head(model) if decay < 1 else dict.fromkeys(hidden | others, 0)
            for level in sorted({levels[name] for name in hidden | others}):
                matrices, rest = (_at(level, levels, named) for named in (hidden, others))
                self._members.append(_Member(_adam(matrices, rest, config), matrices | rest, decay**level))

    @property
    def skips(self) -> bool:
        """Whether the device itself can skip a diverged step."""
        return all(isinstance(member.inner, torch.optim.Adam | Muon) for member in self._members)

    def step(
        self, learning_rate: float, diverged: Tensor | None = None, divisor: Tensor | None = None
    ) -> None:
        """Updates weights from gradients divided by `divisor`; if it `skips`, not where `diverged` is 1."""
        for matrix, whole, rows in self._parts.values():
            matrix.grad = None if whole.grad is None else whole.grad[rows]
        for member in self._members:
            member.step(learning_rate, diverged, divisor)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        for part in self._parts.values():
            part.matrix.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The moments of each parameter by its name; tensors are not copied."""
        moments = {name: of for member in self._members for name, of in member.moments().items()}
        return {"kind": self.kind, "moments": moments}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["kind"] != self.kind:
            raise TrainingError(
                f"training.optimizer: the run uses {state['kind']!r}, not {self.kind!r}; change it back"
            )
        # Parameters without a gradient so far have no moments.
        moments = state.get("moments", {})
        unknown = moments.keys() - {name for member in self._members for name in member.names}
        if unknown:
            raise TrainingError(
                f"optimizer: the saved state has {min(unknown)}, but this model does not; resume the same one"
            )
        for member in self._members:
            member.load(moments)


def hidden_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of linear layers, except readouts and weights tied to something else."""
    inside: set[int] = set()
    outside: set[int] = set()
    for name, module in model.named_modules():
        linear = isinstance(module, nn.Linear) and not f".{name}".endswith(READOUTS)
        for kind, parameter in module.named_parameters(recurse=False):
            (inside if linear and kind == "weight" else outside).add(id(parameter))
    return {name: p for name, p in model.named_parameters() if id(p) in inside - outside}


def levels_below_head(model: nn.Module) -> dict[str, int]:
    """How many blocks lie above each parameter, counting its own: 0 for a head, the most for embeddings."""
    anatomy = anatomy_of(model)
    depth = max((stack.layers for stack in anatomy.stacks), default=0)
    prefixes = {f"{path}.": depth + 1 for path in anatomy.embeddings.values()}
    for stack in anatomy.stacks:
        blocks = f"{stack.path}.blocks.".removeprefix(".")
        prefixes |= {f"{blocks}{number}.": stack.layers - number for number in range(stack.layers)}
    return {
        name: next((level for prefix, level in prefixes.items() if name.startswith(prefix)), 0)
        for name, _ in model.named_parameters()
    }


def _at(level: int, levels: Mapping[str, int], named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of one level."""
    return {name: tensor for name, tensor in named.items() if levels[name] == level}


class _Member:
    """A torch optimizer and the names of its parameters, in order."""

    def __init__(self, inner: torch.optim.Optimizer, names: Iterable[str], factor: float):
        self.inner, self.names, self.factor = inner, list(names), factor

    def step(self, learning_rate: float, diverged: Tensor | None, divisor: Tensor | None) -> None:
        for group in self.inner.param_groups:
            group["lr"] = learning_rate * self.factor
        # These are the names in torch's fused optimizers.
        self.inner.found_inf = diverged  # pyright: ignore[reportAttributeAccessIssue]
        self.inner.grad_scale = divisor  # pyright: ignore[reportAttributeAccessIssue]
        self.inner.step()

    def moments(self) -> dict[str, dict[str, Tensor]]:
        return {self.names[index]: of for index, of in self.inner.state_dict()["state"].items()}

    def load(self, moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        # Without copies, torch would share the tensors with the caller.
        state = {
            index: {key: moment.clone() for key, moment in moments[name].items()}
            for index, name in enumerate(self.names)
            if name in moments
        }
        self.inner.load_state_dict({**self.inner.state_dict(), "state": state})


class _Part(NamedTuple):
    """A matrix inside a parameter, which shares its memory."""

    matrix: Tensor
    whole: nn.Parameter
    rows: slice


def _parts(name: str, whole: nn.Parameter, sizes: tuple[int, ...]) -> Iterator[tuple[str, _Part]]:
    end = 0
    for part, rows in enumerate(sizes):
        span = slice(end, end + rows)
        end += rows
        yield name if len(sizes) == 1 else f"{name}[{part}]", _Part(whole.detach()[span], whole, span)


def _adam(
    hidden: Mapping[str, Tensor], others: Mapping[str, Tensor], config: AdamConfig | AdamWConfig | MuonConfig
) -> torch.optim.Optimizer:
    kind = torch.optim.Adam if isinstance(config, AdamConfig) else torch.optim.AdamW
    groups = [
        {"params": list(hidden.values()), "weight_decay": config.weight_decay},
        {"params": list(others.values()), "weight_decay": 0.0},
    ]
    return kind(groups, betas=config.betas, eps=config.eps, fused=True)


class Muon(torch.optim.Optimizer):
    """Like torch's Muon, but matrices of one shape are orthogonalised as a batch, which is far faster.

    A step has the size of an AdamW step (Liu et al. 2025). As in torch's fused optimizers, `found_inf` and
    `grad_scale` may be set: where `found_inf` is 1 no step is taken, without waiting for the device, and
    gradients are divided by `grad_scale`.
    """

    def __init__(self, matrices: Iterable[Tensor], momentum: float, weight_decay: float):
        defaults = {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__([{"params": list(matrices)}], defaults)
        self.found_inf: Tensor | None = None
        self.grad_scale: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.found_inf is not None and self.found_inf.device.type == "cpu" and self.found_inf.item():
            return
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for matrices in by_shape.values():
                self._step(matrices, group)

    def _step(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        momentum, learning_rate, decay = group["momentum"], group["lr"], group["weight_decay"]
        gradients: list[Tensor] = [matrix.grad for matrix in matrices if matrix.grad is not None]
        if self.grad_scale is not None:
            divide_all_(gradients, self.grad_scale)
        finite: Tensor | float = 1.0
        if self.found_inf is not None and self.found_inf.device.type != "cpu":
            finite = 1 - self.found_inf
            gradients = [torch.where(finite > 0, gradient, 0) for gradient in gradients]
        ahead = torch.empty((len(matrices), *matrices[0].shape), device=gradients[0].device)
        for matrix, gradient, out in zip(matrices, gradients, ahead, strict=True):
            state = self.state[matrix]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(matrix)
            kept = state["momentum_buffer"].lerp_(gradient, (1 - momentum) * finite)
            # A step ahead along the momentum (Nesterov 1983).
            torch.lerp(gradient, kept, momentum, out=out)
        steps = orthogonal(ahead)
        size = -0.2 * max(matrices[0].shape) ** 0.5 * learning_rate
        for matrix, step in zip(matrices, steps, strict=True):
            if decay:
                matrix.mul_(1 - learning_rate * decay * finite)
            matrix.add_(step * finite if isinstance(finite, Tensor) else step, alpha=size)


def orthogonal(matrices: Tensor) -> Tensor:
    """Approximately the nearest orthogonal matrices, in bf16: five Newton-Schulz iterations."""
    a, b, c = QUINTIC
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(EPSILON)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
