"""The sites of a model: its named tensors, which hooks can read and change during a forward pass.

A name is a module's path and a tensor of that module: `decoder.blocks.3.cross_attention.weights`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from clearhead.errors import SettingsError, closest_match
from clearhead.layers.attention import Attention
from clearhead.layers.block import Block, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import FeedForward, SwiGLU
from clearhead.layers.norm import PostNorm, PreNorm
from clearhead.layers.patches import PatchEmbedding
from clearhead.layers.positions import NoPosition, Rotary
from clearhead.layers.recurrent import RecurrentLayer
from clearhead.layers.unrolling import unrolling
from clearhead.models.anatomy import anatomy_of
from clearhead.models.heads import Classifier

Hook = Callable[[Tensor], Tensor]
"""Receives a tensor and returns the one that the model continues with."""
Remove = Callable[[], None]

ATTENTION = ("queries", "keys", "values", "scores", "masked", "weights", "head_output")
"""The steps of an attention; a hook on one of them switches the attention to its explicit path."""
BY_KEY = ("keys", "values")
"""Steps that cover all positions so far, even in a cached step."""


def _output(module: nn.Module, hook: Hook) -> Remove:
    def output_hook(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> Tensor:
        return hook(output)

    return module.register_forward_hook(output_hook).remove


def _input(submodule: str, module: nn.Module, hook: Hook) -> Remove:
    inner = module.get_submodule(submodule)
    return inner.register_forward_pre_hook(lambda _, args: (hook(args[0]), *args[1:])).remove


def _output_of(submodule: str, module: nn.Module, hook: Hook) -> Remove:
    return _output(module.get_submodule(submodule), hook)


def _position_ids(embedding: nn.Module, hook: Hook) -> Remove:
    position = embedding.get_submodule("position")
    return position.register_forward_pre_hook(
        lambda _, args: (args[0], hook(_batched(args[1])), *args[2:])
    ).remove


def _position_embeddings(embedding: nn.Module, hook: Hook) -> Remove:
    def position_hook(position: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        added = cast(Tensor, position.forward(torch.zeros_like(args[0]), *args[1:]))
        changed = hook(added)
        # Adding an unchanged tensor again would round differently.
        return output if changed is added else args[0] + changed

    return embedding.get_submodule("position").register_forward_hook(position_hook).remove


def _rotary_position_ids(stack: nn.Module, hook: Hook) -> Remove:
    def stack_hook(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], Any]:
        x, mask, *rest = args
        positions = rest.pop(0) if rest else kwargs.pop("positions", None)
        positions = torch.arange(x.shape[1], device=x.device) if positions is None else positions
        return (x, mask, hook(_batched(positions)), *rest), kwargs

    return stack.register_forward_pre_hook(stack_hook, with_kwargs=True).remove


def _batched(positions: Tensor) -> Tensor:
    """Positions with a batch axis, which they lack where all rows share them."""
    return positions if positions.dim() == 2 else positions[None]


Register = Callable[[nn.Module, Hook], Remove] | None
"""How to hook a tensor of a module; None: through the module's tap."""
EMBEDDING: dict[str, Register] = {"token_embeddings": partial(_input, "position"), "stream": _output}
PIXELS: dict[str, Register] = {"pixels": partial(_input, "patches")}
POSITION: dict[str, Register] = {"position_embeddings": _position_embeddings, "position_ids": _position_ids}


def _tensors(module: nn.Module) -> dict[str, Register]:
    """The tensors of a module in the order of computation, and how to hook each."""
    match module:
        case Attention():
            return {**dict.fromkeys(ATTENTION), "added": _output}
        case RecurrentLayer():
            return dict.fromkeys(module.cell.tensors)
        case FeedForward() | SwiGLU():
            return {"hidden": partial(_input, "outer"), "added": _output}
        case PostNorm() | PreNorm():
            return {"stream": _output}
        case Embedding() | PatchEmbedding():
            pixels = PIXELS if isinstance(module, PatchEmbedding) else {}
            position = {} if isinstance(module.position, NoPosition) else POSITION
            return {**pixels, **position, **EMBEDDING}
        case Classifier() if module.config.pooling == "sequence":
            return {"pooling_scores": partial(_output_of, "score")}
        case Stack():
            block = module.blocks[0]
            rotary = isinstance(block, Block) and isinstance(block.attention.relative, Rotary)
            return {**({"position_ids": _rotary_position_ids} if rotary else {}), "states": _output}
        case _ if hasattr(module, "anatomy") and anatomy_of(module).readout:
            # Without a tap, the output of a full pass is taken for the logits.
            shown: dict[str, Register] = dict.fromkeys(getattr(module, "tapped", ()))
            return {**shown, "logits": None if hasattr(module, "tap") else _output}
        case _:
            return {}


def position_axis(module: nn.Module, tensor: str) -> int:
    """The axis of positions in a tensor of a module; after heads or directions, if it has them."""
    return 2 if isinstance(module, Attention | RecurrentLayer) and tensor != "added" else 1


class HookRegistry:
    """The hooks on one module; those that change a tensor run before those that only read it."""

    def __init__(self, module: nn.Module):
        self.module, self.tensors = module, _tensors(module)
        self.previous_tap: Any = None
        self.hooks: dict[str, tuple[tuple[bool, Hook], ...]] = {}
        self._removes: dict[str, Remove] = {}

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor after all hooks; the registry itself serves as the module's tap."""
        if self.previous_tap and self.tensors[name] is None:
            tensor = self.previous_tap(name, tensor)
        loop = unrolling()
        for readonly, hook in self.hooks.get(name, ()):
            if readonly and loop:
                # It reads the whole sequence, when the loop is done.
                loop.add((self.module, name, hook), tensor, self._step_axis(name), hook)
            else:
                tensor = hook(tensor)
        return tensor

    def _step_axis(self, name: str) -> int | None:
        """The axis of positions, of which a loop computes one at a time; None where each step has all."""
        return None if name in BY_KEY else position_axis(self.module, name)

    def add(self, name: str, hook: Hook, readonly: bool) -> None:
        hooks = (*self.hooks.get(name, ()), (readonly, hook))
        self.hooks[name] = tuple(sorted(hooks, key=lambda one: one[0]))
        register = self.tensors[name]
        if register is None and self.module.tap is not self:
            self.previous_tap = self.module.tap
            self.module.tap = self  # pyright: ignore[reportArgumentType]
        elif register is not None and name not in self._removes:
            self._removes[name] = register(self.module, lambda tensor: self(name, tensor))

    def remove(self, name: str, hook: Hook) -> None:
        rest = tuple(one for one in self.hooks[name] if one[1] is not hook)
        if rest:
            self.hooks[name] = rest
            return
        del self.hooks[name]
        if name in self._removes:
            self._removes.pop(name)()
        elif not any(self.tensors[other] is None for other in self.hooks):
            self.module.tap = self.previous_tap


_registries: WeakKeyDictionary[nn.Module, HookRegistry] = WeakKeyDictionary()
_lock = threading.Lock()


@dataclass(frozen=True)
class Site:
    """A named tensor of a model."""

    path: str
    module: nn.Module
    tensor: str
    """Its name within the module: "weights", "stream"."""

    @property
    def name(self) -> str:
        return f"{self.path}.{self.tensor}" if self.path else self.tensor

    def error(self, problem: str) -> SettingsError:
        """An error of a change at this site."""
        return SettingsError(f"{self.name}: {problem}")

    def attach(self, hook: Hook, readonly: bool) -> Remove:
        """Calls a hook with each tensor that this thread computes here; returns a function that ends it."""
        thread = threading.get_ident()

        def in_thread(tensor: Tensor) -> Tensor:
            return hook(tensor) if threading.get_ident() == thread else tensor

        with _lock:
            registry = _registries.setdefault(self.module, HookRegistry(self.module))
            registry.add(self.tensor, in_thread, readonly)
        return lambda: self._detach(in_thread)

    def _detach(self, hook: Hook) -> None:
        with _lock:
            registry = _registries[self.module]
            registry.remove(self.tensor, hook)
            if not registry.hooks:
                del _registries[self.module]


def sites(model: nn.Module) -> dict[str, Site]:
    """All sites of a model by name."""
    if not isinstance(model, nn.Module):
        raise SettingsError(f"{type(model).__name__}: not a torch module; pass its .model")
    found = (Site(path, module, name) for path, module in model.named_modules() for name in _tensors(module))
    return {site.name: site for site in found}


def attached(hooks: Iterable[tuple[Site, Hook]], readonly: bool) -> ExitStack:
    """A context in which each hook is attached to its site."""
    with ExitStack() as stack:
        for site, hook in hooks:
            stack.callback(site.attach(hook, readonly))
        return stack.pop_all()


def matching(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    """The names that match any pattern; a pattern without a match is an error."""
    if not isinstance(patterns, Iterable):
        raise SettingsError(f"names: {patterns!r} is not a list; pass ['decoder.*.weights', …] or '*'")
    patterns, names = [patterns] if isinstance(patterns, str) else patterns, list(names)
    matches: set[str] = set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise SettingsError(f"names: {pattern!r} is not a string; pass names such as 'decoder.*.weights'")
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            similar = similar_name(pattern, names)
            raise SettingsError(f"{pattern}: no tensor of the model has this name{similar}")
        matches |= found
    return [name for name in names if name in matches]


def similar_name(name: str, names: Iterable[str]) -> str:
    """The end of an error message that suggests a similar name, if there is one."""
    near = closest_match(name, names, cutoff=0.3)
    return f"; did you mean {near}?" if near else ""
