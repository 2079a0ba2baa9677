"""Seeing what happens inside a model while it runs: names are module paths, and nothing is paid outside."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from clearhead.inspection.sites import Listener, listening, matching, nearby, sites


class Trace(Mapping[str, Tensor]):
    """What was captured, by name: `decoder.blocks.3.cross_attention.weights`; a later pass replaces it."""

    def __init__(self, tensors: Mapping[str, Tensor] | None = None):
        self._tensors = dict(tensors or {})

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"{name}: was not captured{nearby(name, self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Trace of {len(self)} tensors, {self.bytes:,} bytes"

    @property
    def bytes(self) -> int:
        """How much memory the tensors take, each for itself."""
        return sum(tensor.nbytes for tensor in self.values())

    def to(self, device: torch.device | str) -> "Trace":
        return Trace({name: tensor.to(device) for name, tensor in self.items()})

    def _keeper(self, name: str) -> Listener:
        def keep(tensor: Tensor) -> Tensor:
            self._tensors[name] = tensor.detach()
            return tensor

        return keep


@contextmanager
def capture(model: nn.Module, names: Sequence[str] = ("*",)) -> Iterator[Trace]:
    """Captures what matches the names (`*` stands for anything) until the context ends; changes no output.

    Captures nest, and each sees what its own thread computes. Capture the plain module, not a compiled or
    distributed wrapper of it.
    """
    trace, all_sites = Trace(), sites(model)
    wanted = [all_sites[name] for name in matching(names, all_sites)]
    with listening(((site, trace._keeper(site.name)) for site in wanted), looks=True):
        yield trace
