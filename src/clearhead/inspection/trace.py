"""Seeing what happens inside a model while it runs: names are module paths, and nothing is paid outside."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.layers.attention import Attention, Tap

SHOWN = ("queries", "keys", "values", "scores", "masked", "weights", "mixed")
"""What an attention shows to a tap."""


class Trace(Mapping[str, Tensor]):
    """What was captured, by name: `decoder.blocks.3.cross_attention.weights`; a later pass replaces it."""

    def __init__(self):
        self._tensors: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def _keep(self, name: str, tensor: Tensor) -> None:
        self._tensors[name] = tensor.detach()


@contextmanager
def capture(model: nn.Module, names: Sequence[str] = ("*",)) -> Iterator[Trace]:
    """Captures what matches the names (`*` stands for anything) until the context ends; changes no output.

    Capture the plain module, not a compiled or distributed wrapper of it, and one at a time.
    """
    trace = Trace()
    attentions = {path: module for path, module in model.named_modules() if isinstance(module, Attention)}
    wanted = _matching(names, [f"{path}.{shown}" for path in attentions for shown in SHOWN])
    before = {path: attention.tap for path, attention in attentions.items()}
    try:
        for path, attention in attentions.items():
            if any(f"{path}.{shown}" in wanted for shown in SHOWN):
                attention.tap = _recorder(trace, path, wanted, attention.tap)
        yield trace
    finally:
        for path, attention in attentions.items():
            attention.tap = before[path]


def _recorder(trace: Trace, path: str, wanted: set[str], inner: Tap | None) -> Tap:
    def tap(shown: str, tensor: Tensor) -> Tensor:
        tensor = inner(shown, tensor) if inner else tensor
        if f"{path}.{shown}" in wanted:
            trace._keep(f"{path}.{shown}", tensor)
        return tensor

    return tap


def _matching(patterns: Sequence[str], names: Sequence[str]) -> set[str]:
    matching: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.3)
            raise SettingsError(
                f"{pattern}: nothing in the model has this name" + (f"; near it: {near[0]}" if near else "")
            )
        matching |= found
    return matching
