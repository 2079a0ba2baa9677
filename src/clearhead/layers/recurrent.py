"""Recurrent layers: RNN, GRU and LSTM; torch's fused kernels by default, step by step while a tap watches."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from clearhead.layers.attention import Tap
from clearhead.layers.unrolling import Unrolling

CellKind = Literal["rnn", "gru", "lstm"]
Reading = Literal["forward", "backward", "both"]
"""Which way a layer reads its input; "both" is a bidirectional layer (Schuster and Paliwal 1997)."""
Lengths = Int[Tensor, " batch"]
Inputs = Float[Tensor, "batch positions inputs"]
Outputs = Float[Tensor, "batch positions outputs"]
State = tuple[Float[Tensor, "batch _ width"], ...]
"""The hidden state, and the cell state of an LSTM: (batch, directions, width)."""
Vectors = Float[Tensor, "batch width"]
Gates = Float[Tensor, "batch gates"]
Step = Callable[[Gates, Gates, tuple[Vectors, ...], Tap], tuple[Vectors, ...]]
"""One step from Wx + b, Uh + c and the state before it; the tap sees each gate and may change it."""


def rnn_step(inputs: Gates, recurrent: Gates, state: tuple[Vectors, ...], tap: Tap) -> tuple[Vectors, ...]:
    """h' = tanh(Wx + Uh)."""
    return (tap("hidden", (inputs + recurrent).tanh()),)


def gru_step(inputs: Gates, recurrent: Gates, state: tuple[Vectors, ...], tap: Tap) -> tuple[Vectors, ...]:
    """h' = (1 - z)n + zh, where n = tanh(Wx + r(Uh)); the reset gate r after the product, as in torch."""
    (hidden,) = state
    reset_in, update_in, candidate_in = inputs.chunk(3, -1)
    reset_from, update_from, candidate_from = recurrent.chunk(3, -1)
    reset = tap("reset_gate", (reset_in + reset_from).sigmoid())
    update = tap("update_gate", (update_in + update_from).sigmoid())
    candidate = tap("candidate", (candidate_in + reset * candidate_from).tanh())
    return (tap("hidden", (1 - update) * candidate + update * hidden),)


def lstm_step(inputs: Gates, recurrent: Gates, state: tuple[Vectors, ...], tap: Tap) -> tuple[Vectors, ...]:
    """c' = fc + ig and h' = o tanh(c')."""
    _, cell = state
    into, forget, candidate, out = (inputs + recurrent).chunk(4, -1)
    into, forget = tap("input_gate", into.sigmoid()), tap("forget_gate", forget.sigmoid())
    candidate, out = tap("candidate", candidate.tanh()), tap("output_gate", out.sigmoid())
    cell = tap("cell", forget * cell + into * candidate)
    return tap("hidden", out * cell.tanh()), cell


@dataclass(frozen=True)
class Cell:
    """A kind of recurrence."""

    kernel: Callable[..., nn.RNNBase]
    """Holds the weights, and computes whole sequences."""
    step: Step
    fused_step: Callable[..., tuple[Vectors, ...]]
    """The same step by torch, from the input, the state and the weights."""
    tensors: tuple[str, ...]
    """What a tap sees, in the order of computation."""
    parts: int = 1
    """The number of tensors in the state."""


CELLS: dict[str, Cell] = {
    # Elman 1990
    "rnn": Cell(nn.RNN, rnn_step, lambda x, state, *w: (torch.rnn_tanh_cell(x, *state, *w),), ("hidden",)),
    # Cho et al. 2014
    "gru": Cell(
        nn.GRU,
        gru_step,
        lambda x, state, *w: (torch.gru_cell(x, *state, *w),),
        ("reset_gate", "update_gate", "candidate", "hidden"),
    ),
    # Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000
    "lstm": Cell(
        nn.LSTM,
        lstm_step,
        lambda x, state, *w: torch.lstm_cell(x, state, *w),
        ("input_gate", "forget_gate", "candidate", "output_gate", "cell", "hidden"),
        parts=2,
    ),
}


class RecurrentLayer(nn.Module):
    """One layer of a recurrence, in one direction or in both, whose outputs are concatenated.

    A tap sees each gate of each step as (batch, directions, 1, width), the other direction as zeros. The
    layer always computes in the precision of its weights, because errors add up over many steps.
    """

    def __init__(self, cell: CellKind, inputs: int, width: int, reads: Reading = "forward"):
        super().__init__()
        self.cell, self.width, self.reads = CELLS[cell], width, reads
        self.directions = 2 if reads == "both" else 1
        self.kernel = self.cell.kernel(inputs, width, batch_first=True, bidirectional=reads == "both")
        self.tap: Tap | None = None
        for direction in range(self.directions):
            _, recurrent, *biases = self._weights(direction)
            for matrix in recurrent.split(width):
                nn.init.orthogonal_(matrix)
            for bias in biases:
                nn.init.zeros_(bias)
            if cell == "lstm":
                # At first an LSTM remembers (Jozefowicz et al. 2015).
                nn.init.ones_(biases[0][width : 2 * width])

    def forward(
        self, x: Inputs, lengths: Lengths | None = None, state: State | None = None
    ) -> tuple[Outputs, State]:
        """The hidden states at all positions, and the state after the last one; zero after `lengths`."""
        # On a GPU, autocast would run the kernel in fp16, whose range the gradients of a summed loss exceed.
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self._weights(0)[0].dtype)
            return self._fused(x, lengths, state) if self.tap is None else self._explicit(x, lengths, state)

    def step(self, x: Float[Tensor, "batch inputs"], state: State) -> tuple[Vectors, State]:
        """The next hidden state, and the state; of a layer that reads forward."""
        with torch.autocast(x.device.type, enabled=False):
            weights, now = self._weights(0), tuple(part.squeeze(1) for part in state)
            x = x.to(weights[0].dtype)
            if self.tap is None:
                after = self.cell.fused_step(x, now, *weights)
            else:
                w, u, b, c = weights
                recurrent = F.linear(now[0], u, c)
                after = self.cell.step(F.linear(x, w, b), recurrent, now, self._directed(0))
            return after[0], tuple(part[:, None] for part in after)

    def start(self, x: Tensor) -> State:
        """The state before the first position: zeros."""
        zeros = self._weights(0)[0].new_zeros(x.shape[0], self.directions, self.width)
        return (zeros,) * self.cell.parts

    def _fused(self, x: Inputs, lengths: Lengths | None, state: State | None) -> tuple[Outputs, State]:
        """The whole sequence by torch's kernel; padding is packed away."""
        order = _reversal(x, lengths) if self.reads == "backward" else None
        x = x if order is None else x.gather(1, order.expand_as(x))
        given: Any = None if state is None else tuple(part.transpose(0, 1).contiguous() for part in state)
        given = given[0] if given and self.cell.parts == 1 else given
        # cuDNN has no backward pass in evaluation mode.
        native = x.is_cuda and torch.is_grad_enabled() and not self.training
        with torch.backends.cudnn.flags(enabled=False) if native else nullcontext():
            if lengths is None:
                outputs, after = self.kernel(x, given)
            else:
                packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
                outputs, after = self.kernel(packed, given)
                outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        outputs = outputs if order is None else outputs.gather(1, order.expand_as(outputs))
        after = (after,) if self.cell.parts == 1 else after
        return outputs, tuple(part.transpose(0, 1) for part in after)

    def _explicit(self, x: Inputs, lengths: Lengths | None, state: State | None) -> tuple[Outputs, State]:
        """The same step by step; the tap sees every gate and may change it."""
        state = self.start(x) if state is None else state
        ends: list[tuple[Vectors, ...]] = []
        outputs: list[Tensor] = []
        with Unrolling(x.shape[1]) as unrolled:
            for direction in range(self.directions):
                unrolled.direction = direction
                w, u, b, c = self._weights(direction)
                inputs, now = F.linear(x, w, b), tuple(part[:, direction] for part in state)
                positions = list(range(x.shape[1]))
                found: dict[int, Tensor] = {}
                for position in positions[::-1] if self._backwards(direction) else positions:
                    unrolled.position = position
                    recurrent, tap = F.linear(now[0], u, c), self._directed(direction)
                    after = self.cell.step(inputs[:, position], recurrent, now, tap)
                    found[position] = after[0]
                    if lengths is not None:
                        inside = (position < lengths)[:, None]
                        found[position] = after[0] * inside
                        after = tuple(torch.where(inside, *pair) for pair in zip(after, now, strict=True))
                    now = after
                ends.append(now)
                outputs.append(torch.stack([found[position] for position in positions], 1))
        return torch.cat(outputs, -1), tuple(torch.stack(parts, 1) for parts in zip(*ends, strict=True))

    def _directed(self, direction: int) -> Tap:
        """The tap for the steps of one direction."""
        tap = self.tap
        assert tap is not None

        def show(name: str, value: Tensor) -> Tensor:
            others = [torch.zeros_like(value)] * self.directions
            others[direction] = value
            return tap(name, torch.stack(others, 1)[:, :, None])[:, direction, 0]

        return show

    def _backwards(self, direction: int) -> bool:
        return self.reads == "backward" or direction == 1

    def _weights(self, direction: int) -> list[Tensor]:
        """W, U and their biases."""
        suffix = "_reverse" if direction else ""
        return [
            getattr(self.kernel, f"{name}_l0{suffix}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]


class Recurrent(nn.Module):
    """Several recurrent layers, with dropout between them."""

    def __init__(
        self,
        cell: CellKind,
        inputs: int,
        width: int,
        layers: int,
        dropout: float = 0.0,
        reads: Reading = "forward",
    ):
        super().__init__()
        self.dropout = dropout
        outputs = width * (2 if reads == "both" else 1)
        self.layers = nn.ModuleList(
            RecurrentLayer(cell, outputs if layer else inputs, width, reads) for layer in range(layers)
        )

    def forward(
        self, x: Inputs, lengths: Lengths | None = None, states: Sequence[State] | None = None
    ) -> tuple[Outputs, list[State]]:
        """The last layer's hidden states at all positions, and the state of each layer after the last one."""
        after: list[State] = []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, RecurrentLayer)
            x = F.dropout(x, self.dropout, self.training) if number else x
            x, state = layer(x, lengths, states[number] if states else None)
            after.append(state)
        return x, after

    def step(self, x: Float[Tensor, "batch inputs"], states: Sequence[State]) -> tuple[Vectors, list[State]]:
        """The last layer's next hidden state, and the state of each layer."""
        after: list[State] = []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, RecurrentLayer)
            x = F.dropout(x, self.dropout, self.training) if number else x
            x, state = layer.step(x, states[number])
            after.append(state)
        return x, after


def _reversal(x: Inputs, lengths: Lengths | None) -> Int[Tensor, "_ positions 1"]:
    """The position whose vector each position gets when every row is reversed; padding stays."""
    positions = torch.arange(x.shape[1], device=x.device)[None]
    ends = positions[:, -1:] + 1 if lengths is None else lengths[:, None]
    return torch.where(positions < ends, ends - 1 - positions, positions)[:, :, None].expand(len(x), -1, -1)
