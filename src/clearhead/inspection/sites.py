"""The sites of a model: the tensors in it that have a name, and can be seen and changed while it runs.

A name is the path of a module and what the module shows there: `decoder.blocks.3.cross_attention.weights`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
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
from clearhead.layers.positions import NoPosition, Rotary
from clearhead.models import GPT, Translator

Listener = Callable[[Tensor], Tensor]
"""Is shown a tensor, and gives back what the model goes on with."""
Remove = Callable[[], None]

ATTENTION = ("queries", "keys", "values", "scores", "masked", "weights", "head_output")
"""The steps of an attention; whoever listens to one makes it compute them one by one."""


def _output(module: nn.Module, show: Listener) -> Remove:
    def hook(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> Tensor:
        return show(output)

    return module.register_forward_hook(hook).remove


def _hidden(feedforward: nn.Module, show: Listener) -> Remove:
    outer = feedforward.get_submodule("outer")
    return outer.register_forward_pre_hook(lambda _, given: (show(given[0]),)).remove


def _token_embeddings(embedding: nn.Module, show: Listener) -> Remove:
    position = embedding.get_submodule("position")
    return position.register_forward_pre_hook(lambda _, given: (show(given[0]), *given[1:])).remove


def _position_ids(embedding: nn.Module, show: Listener) -> Remove:
    def hook(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return given[0], show(_rows(given[1])), *given[2:]

    return embedding.get_submodule("position").register_forward_pre_hook(hook).remove


def _position_embeddings(embedding: nn.Module, show: Listener) -> Remove:
    def hook(position: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        added = cast(Tensor, position.forward(torch.zeros_like(given[0]), *given[1:]))
        shown = show(added)
        # As it was computed, unless somebody changed it: a sum taken apart is rounded.
        return output if shown is added else given[0] + shown

    return embedding.get_submodule("position").register_forward_hook(hook).remove


def _rotary_position_ids(stack: nn.Module, show: Listener) -> Remove:
    def hook(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        x, mask, *rest = given
        positions = rest.pop(0) if rest else named.pop("positions", None)
        positions = torch.arange(x.shape[1], device=x.device) if positions is None else positions
        return (x, mask, show(_rows(positions)), *rest), named

    return stack.register_forward_pre_hook(hook, with_kwargs=True).remove


def _rows(positions: Tensor) -> Tensor:
    """Positions with the batch's axis, which they lack where all rows have the same."""
    return positions if positions.dim() == 2 else positions[None]


Way = Callable[[nn.Module, Listener], Remove] | None
"""How one gets to see what a module shows; None: through its tap."""
EMBEDDING: dict[str, Way] = {"token_embeddings": _token_embeddings, "stream": _output}
"""The vectors of the words, and these with their positions: where the stream begins."""
ADDED: dict[str, Way] = {"position_embeddings": _position_embeddings, "position_ids": _position_ids}
"""What is added to the words, and for which positions."""


def _ways(module: nn.Module) -> dict[str, Way]:
    """What a module shows, in the order in which it comes, and how one gets to see it."""
    match module:
        case Attention():
            return {**dict.fromkeys(ATTENTION), "added": _output}
        case FeedForward() | SwiGLU():
            return {"hidden": _hidden, "added": _output}
        case PostNorm() | PreNorm():
            return {"stream": _output}
        case Embedding():
            return EMBEDDING if isinstance(module.position, NoPosition) else {**ADDED, **EMBEDDING}
        case Stack():
            block = module.blocks[0]
            turns = isinstance(block, Block) and isinstance(block.attention.relative, Rotary)
            return {"position_ids": _rotary_position_ids, "states": _output} if turns else {"states": _output}
        case Translator() | GPT():
            return {"logits": None}
        case _:
            return {}


class Board:
    """Who listens to one module: those who change what it shows come before those who only look."""

    def __init__(self, module: nn.Module):
        self.module, self.ways = module, _ways(module)
        self.own: Any = None
        """A tap that was there before."""
        self._listeners: dict[str, tuple[tuple[bool, Listener], ...]] = {}
        self._removes: dict[str, Remove] = {}

    def __call__(self, shown: str, tensor: Tensor) -> Tensor:
        """The tensor as all listeners leave it; the board is itself a tap."""
        tensor = self.own(shown, tensor) if self.own and self.ways[shown] is None else tensor
        for _, listener in self._listeners.get(shown, ()):
            tensor = listener(tensor)
        return tensor

    def add(self, shown: str, listener: Listener, looks: bool) -> None:
        listeners = (*self._listeners.get(shown, ()), (looks, listener))
        self._listeners[shown] = tuple(sorted(listeners, key=lambda one: one[0]))
        way = self.ways[shown]
        if way is None and self.module.tap is not self:
            self.own = self.module.tap
            self.module.tap = self  # pyright: ignore[reportArgumentType]
        elif way is not None and shown not in self._removes:
            self._removes[shown] = way(self.module, lambda tensor: self(shown, tensor))

    def remove(self, shown: str, listener: Listener) -> None:
        rest = tuple(one for one in self._listeners[shown] if one[1] is not listener)
        if rest:
            self._listeners[shown] = rest
            return
        del self._listeners[shown]
        if shown in self._removes:
            self._removes.pop(shown)()
        elif not any(self.ways[left] is None for left in self._listeners):
            self.module.tap = self.own

    @property
    def empty(self) -> bool:
        return not self._listeners


_boards: WeakKeyDictionary[nn.Module, Board] = WeakKeyDictionary()
_lock = threading.Lock()


@dataclass(frozen=True)
class Site:
    """A tensor of a model that has a name."""

    path: str
    module: nn.Module
    shown: str

    @property
    def name(self) -> str:
        return f"{self.path}.{self.shown}" if self.path else self.shown

    def listen(self, listener: Listener, looks: bool) -> Remove:
        """Shows every tensor at this site to a listener; calling what it gives ends that.

        What other threads compute meanwhile is neither shown nor changed.
        """
        here = threading.get_ident()

        def heard(tensor: Tensor) -> Tensor:
            return listener(tensor) if threading.get_ident() == here else tensor

        with _lock:
            _boards.setdefault(self.module, Board(self.module)).add(self.shown, heard, looks)
        return lambda: self._leave(heard)

    def _leave(self, heard: Listener) -> None:
        with _lock:
            board = _boards[self.module]
            board.remove(self.shown, heard)
            if board.empty:
                del _boards[self.module]


def sites(model: nn.Module) -> dict[str, Site]:
    """Every site of a model by its name."""
    if not isinstance(model, nn.Module):
        raise SettingsError(f"a {type(model).__name__} is no module of torch; give its .model")
    found = (Site(path, module, shown) for path, module in model.named_modules() for shown in _ways(module))
    return {site.name: site for site in found}


def listening(listeners: Iterable[tuple[Site, Listener]], looks: bool) -> ExitStack:
    """Until the context ends, each listener is shown what comes by its site."""
    with ExitStack() as stack:
        for site, listener in listeners:
            stack.callback(site.listen(listener, looks))
        return stack.pop_all()


def matching(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    """The names that match any of the patterns, or the only one; a pattern that matches none is refused."""
    if not isinstance(patterns, Iterable):
        raise SettingsError(f"names: {patterns!r} is no list of names; give ['decoder.*.weights', …], or '*'")
    patterns, names = [patterns] if isinstance(patterns, str) else patterns, list(names)
    matching: set[str] = set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise SettingsError(f"{pattern!r} is no name; names are texts, such as 'decoder.*.weights'")
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            raise SettingsError(f"{pattern}: nothing in the model has this name{nearby(pattern, names)}")
        matching |= found
    return [name for name in names if name in matching]


def nearby(name: str, names: Iterable[str]) -> str:
    """The end of a message that says which name may have been meant."""
    near = closest_match(name, names, cutoff=0.3)
    return f"; near it: {near}" if near else ""
