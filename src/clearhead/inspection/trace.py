"""Capturing the tensors of a forward pass by name; outside a capture a model runs at full speed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.inspection.sites import Hook, Site, attached, matching, similar_name, sites

Keep = Callable[[str, Tensor], None]
"""Receives each captured tensor with its name as soon as it is computed."""


class Trace(Mapping[str, Tensor]):
    """Captured tensors by name; a tensor that is computed again replaces the earlier one."""

    def __init__(self, tensors: Mapping[str, Tensor] | None = None):
        self._tensors = dict(tensors or {})

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"{name}: was not captured{similar_name(name, self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Trace of {len(self)} tensors, {self.bytes:,} bytes"

    def put(self, name: str, tensor: Tensor) -> None:
        self._tensors[name] = tensor

    @property
    def bytes(self) -> int:
        """The memory of all tensors, not counting that they may share storage."""
        return sum(tensor.nbytes for tensor in self.values())

    def to(self, device: torch.device | str) -> "Trace":
        return Trace({name: tensor.to(device) for name, tensor in self.items()})


@contextmanager
def capture(model: nn.Module, names: Sequence[str] = ("*",), keep: Keep | None = None) -> Iterator[Trace]:
    """Captures all tensors that match the names (`*` matches anything) until the context ends.

    Outputs do not change. Captures nest, and each records only its own thread. With `keep`, tensors go to
    that function instead of the trace. Capture the plain module, not a compiled or distributed wrapper.
    """
    trace, all_sites = Trace(), sites(model)
    selected = [all_sites[name] for name in matching(names, all_sites)]
    with attached(((site, _recorder(site, keep or trace.put)) for site in selected), readonly=True):
        yield trace


def _recorder(site: Site, keep: Keep) -> Hook:
    def record(tensor: Tensor) -> Tensor:
        keep(site.name, tensor.detach())
        return tensor

    return record


@dataclass(frozen=True)
class CapturedPass:
    """A forward pass whose tensors were captured."""

    trace: Trace
    """On the CPU."""
    logits: Tensor | None
    """None if no names were given, so that no pass was run."""
    difference: float
    """The largest difference from the logits of the same pass on the fused path; NaN without a pass."""


@torch.no_grad()
def captured_pass(
    model: nn.Module, run: Callable[[], Tensor], names: Sequence[str] = ("*",), keep: Keep | None = None
) -> CapturedPass:
    """Captures a pass, whose `run` returns the logits, and compares them with those of a plain pass."""
    if not names:
        return CapturedPass(Trace(), None, float("nan"))
    with capture(model, names, keep) as trace:
        logits = run()
    plain = run()
    # A token that cannot follow has the logit -inf in both.
    differences = (logits - plain).abs().masked_fill(logits == plain, 0.0)
    return CapturedPass(trace.to("cpu"), logits.cpu(), float(differences.max()))


@torch.no_grad()
def first_tensors(model: nn.Module, run: Callable[[], Tensor], names: Sequence[str]) -> Trace:
    """The named tensors of a pass that stops as soon as it has computed all of them."""
    wanted, found = set(matching(names, sites(model))), Trace()

    def keep(name: str, tensor: Tensor) -> None:
        found.put(name, tensor.cpu())
        if len(found) == len(wanted):
            raise _AllFound

    with suppress(_AllFound), capture(model, names, keep):
        run()
    return found


class _AllFound(Exception):  # noqa: N818, as it is no error
    """Ends a pass early."""
