"""Capturing the tensors of a forward pass by name; outside a capture a model runs at full speed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.inspection.offset import PositionOffset
from clearhead.inspection.sites import Hook, Site, attached, matching, similar_name, sites
from clearhead.inspection.steps import SiteSteps
from clearhead.layers.embedding import Embedding
from clearhead.layers.searching import SearchLog, listening
from clearhead.wording import counted

Keep = Callable[[str, Tensor], None]
"""Receives each captured tensor with its name as soon as it is computed."""


class Trace(Mapping[str, Tensor]):
    """Captured tensors by name, those of the last pass or search.

    A search computes a tensor once per step. Its steps are put together, in a row for each sentence, as one
    pass over the sentence that the search returned would compute them; `steps` gives them as they were.
    """

    def __init__(self, tensors: Mapping[str, Tensor] | None = None):
        self._tensors: dict[str, Tensor | SiteSteps] = dict(tensors or {})

    def __getitem__(self, name: str) -> Tensor:
        found = self._found(name)
        if isinstance(found, SiteSteps):
            found = found.joined()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        shown = ", ".join([*self][:3]) + (", …" if len(self) > 3 else "")
        size = f"{self.bytes:,} bytes" if len(self) else "empty"
        return f"Trace of {counted(len(self), 'tensor')}, {size}" + (f": {shown}" if shown else "")

    def put(self, name: str, tensor: Tensor) -> None:
        self._tensors[name] = tensor

    def steps(self, name: str) -> list[Tensor]:
        """The tensors of a site in the order of their computation, one per step of a search.

        Rows are those of the search: all open hypotheses, in an order that may change after each step.
        """
        found = self._found(name)
        return [part for _, part in found.parts] if isinstance(found, SiteSteps) else [found]

    @property
    def bytes(self) -> int:
        """The memory of all tensors, not counting that they may share storage."""
        return sum(tensor.nbytes for name in self for tensor in self.steps(name))

    def to(self, device: torch.device | str) -> "Trace":
        return Trace({name: tensor.to(device) for name, tensor in self.items()})

    def gradients(self, scalar: Tensor) -> "Trace":
        """The gradient of a number at every captured tensor that it depends on.

        The number comes from a pass under `capture(..., gradients=True)`: a logit, a loss. Parameters keep
        their gradients. Tensors of recurrent layers are computed one position at a time and have none.
        """
        if not isinstance(scalar, Tensor) or scalar.numel() != 1:
            shape = tuple(scalar.shape) if isinstance(scalar, Tensor) else type(scalar).__name__
            raise SettingsError(f"scalar: {shape} is not one number; choose one, such as logits[0, -1, 5]")
        tensors = {name: tensor for name, tensor in self.items() if tensor.requires_grad}
        if not scalar.requires_grad or not tensors:
            raise SettingsError(
                "gradients: the pass kept none; run it under capture(..., gradients=True), outside of "
                "torch.no_grad() and torch.inference_mode(), as searches are"
            )
        found = torch.autograd.grad(
            scalar.sum(), list(tensors.values()), retain_graph=True, allow_unused=True
        )
        return Trace({name: one for name, one in zip(tensors, found, strict=True) if one is not None})

    def _found(self, name: str) -> "Tensor | SiteSteps":
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"{name}: was not captured{similar_name(name, self)}") from None

    def _add(self, site: Site, tensor: Tensor, log: SearchLog, offset: int | None) -> None:
        """Keeps a tensor: in a search beside those of earlier steps, else instead of the last pass's.

        `offset` is the position of its first token; None if the model does not tell.
        """
        known = self._tensors.get(site.name)
        if isinstance(known, SiteSteps) and known.log is log:
            goes_on = offset > 0 if offset is not None else log.step > known.parts[-1][0]
        else:
            goes_on = False
        steps = known if goes_on and isinstance(known, SiteSteps) else SiteSteps(site, log)
        steps.add(tensor)
        self._tensors[site.name] = steps


@contextmanager
def capture(
    model: nn.Module, names: Sequence[str] = ("*",), keep: Keep | None = None, *, gradients: bool = False
) -> Iterator[Trace]:
    """Captures all tensors that match the names (`*` matches anything) until the context ends.

    Outputs do not change. Captures nest, and each records only its own thread. The trace has the tensors of
    the last pass; of a search, every step. With `keep`, each tensor goes to that function instead, as soon as
    it is computed. With `gradients`, tensors stay part of the graph, for `Trace.gradients`. Capture the plain
    module, not a compiled or distributed wrapper.
    """
    trace, all_sites, offset = Trace(), sites(model), PositionOffset()
    selected = [all_sites[name] for name in matching(names, all_sites)]
    embeds = any(isinstance(module, Embedding) for module in model.modules())
    with listening() as search, offset.tracking(model):

        def hook(site: Site) -> Hook:
            def record(tensor: Tensor) -> Tensor:
                tensor = _in_graph(tensor) if gradients else tensor
                kept = tensor if gradients else tensor.detach()
                if keep:
                    keep(site.name, kept)
                else:
                    trace._add(site, kept, search.log, offset.in_full_row if embeds else None)
                return tensor

            return record

        with attached(((site, hook(site)) for site in selected), readonly=True):
            yield trace


def _in_graph(tensor: Tensor) -> Tensor:
    """The tensor as a node of the graph of its own, so that whatever uses it has a gradient there."""
    if not tensor.is_floating_point() or not torch.is_grad_enabled() or tensor.is_inference():
        return tensor
    return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()


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
