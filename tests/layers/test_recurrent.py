"""Recurrent layers: fused equals step by step and torch's own modules; a tap sees and changes gates."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from clearhead.inspection import capture, intervene
from clearhead.inspection.edits import Patch, Swap
from clearhead.layers.recurrent import CELLS, Recurrent, RecurrentLayer

BATCH, POSITIONS, INPUTS, WIDTH = 4, 6, 5, 7
LENGTHS = torch.tensor([6, 2, 4, 1])
READS = ["forward", "backward", "both"]


def no_change(name: str, tensor: Tensor) -> Tensor:
    return tensor


def make_recurrent(cell: str, reads: str = "forward", layers: int = 1, dropout: float = 0.0) -> Recurrent:
    torch.manual_seed(0)
    made = Recurrent(cell, INPUTS, WIDTH, layers, dropout, reads)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def set_tap(recurrent: Recurrent, tap) -> None:
    for layer in recurrent.layers:
        layer.tap = tap


def results(recurrent: Recurrent, x: Tensor, lengths: Tensor | None, states=None) -> tuple[list, list]:
    """Outputs and states, and the gradients of a weighted sum of them all."""
    x = x.clone().requires_grad_()
    outputs, after = recurrent(x, lengths, states)
    found = [outputs, *(part for state in after for part in state)]
    total = sum((one * torch.linspace(-1, 1, one.numel()).view_as(one)).sum() for one in found)
    return found, list(torch.autograd.grad(total, [x, *recurrent.parameters()]))


def assert_all_close(ones, others) -> None:
    for one, other in zip(ones, others, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("cell", CELLS)
def test_fused_equals_step_by_step(cell, reads, lengths, layers):
    recurrent = make_recurrent(cell, reads, layers)
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    fused = results(recurrent, x, lengths)
    set_tap(recurrent, no_change)
    explicit = results(recurrent, x, lengths)
    assert_all_close(fused[0], explicit[0])
    assert_all_close(fused[1], explicit[1])


@pytest.mark.parametrize("tapped", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("cell", "module"), [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_several_layers_equal_torchs_module_with_the_same_weights(cell, module, both, tapped):
    recurrent = make_recurrent(cell, "both" if both else "forward", layers=2)
    theirs = module(INPUTS, WIDTH, num_layers=2, bidirectional=both, batch_first=True)
    weights = dict(theirs.named_parameters())
    for name, weight in recurrent.named_parameters():
        _, layer, _, own = name.split(".")
        weights[own.replace("_l0", f"_l{layer}")].data.copy_(weight)
    set_tap(recurrent, no_change if tapped else None)
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    outputs, states = recurrent(x, LENGTHS)
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    expected, after = theirs(packed)
    expected, _ = pad_packed_sequence(expected, batch_first=True)
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-5)
    after = after if cell == "lstm" else (after,)
    for part, theirs_of in enumerate(after):
        ours = torch.cat([state[part].transpose(0, 1) for state in states])
        torch.testing.assert_close(ours, theirs_of, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tapped", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_single_steps_equal_the_whole_sequence(cell, tapped):
    recurrent = make_recurrent(cell, layers=2)
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    expected, ends = recurrent(x)
    set_tap(recurrent, no_change if tapped else None)
    states = [layer.start(x) for layer in recurrent.layers]
    found = []
    for one in x.unbind(1):
        output, states = recurrent.step(one, states)
        found.append(output)
    torch.testing.assert_close(torch.stack(found, 1), expected, atol=1e-5, rtol=1e-5)
    for state, end in zip(states, ends, strict=True):
        assert_all_close(state, end)


@pytest.mark.parametrize("tapped", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_sequence_continues_from_a_state(cell, tapped):
    recurrent = make_recurrent(cell, layers=2)
    set_tap(recurrent, no_change if tapped else None)
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    whole, ends = recurrent(x)
    first, states = recurrent(x[:, :2])
    second, after = recurrent(x[:, 2:], None, states)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, atol=1e-5, rtol=1e-5)
    assert_all_close(after[-1], ends[-1])


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("cell", CELLS)
def test_padding_changes_nothing_and_its_outputs_are_zero(cell, reads):
    recurrent = make_recurrent(cell, reads)
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    for tap in (None, no_change):
        set_tap(recurrent, tap)
        outputs, [state] = recurrent(x, LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            alone, [end] = recurrent(x[row : row + 1, :length])
            torch.testing.assert_close(outputs[row, :length], alone[0], atol=1e-5, rtol=1e-5)
            assert_all_close([part[row] for part in state], [part[0] for part in end])
            assert outputs[row, length:].count_nonzero() == 0


def test_a_layer_that_reads_backward_reads_the_reversed_sequence():
    forward, backward = make_recurrent("lstm"), make_recurrent("lstm", "backward")
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    expected, [state] = forward(x.flip(1))
    found, [end] = backward(x)
    torch.testing.assert_close(found, expected.flip(1))
    assert_all_close(end, state)


def test_dropout_is_between_layers_and_in_training_only():
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    for layers, varies in ((1, False), (2, True)):
        recurrent = make_recurrent("gru", layers=layers, dropout=0.5)
        assert torch.equal(recurrent(x)[0], recurrent(x)[0]) != varies
        recurrent.eval()
        assert torch.equal(recurrent(x)[0], recurrent(x)[0])


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_capture_holds_every_gate_at_every_position(cell, reads):
    recurrent = make_recurrent(cell, reads, layers=2)
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    plain, _ = recurrent(x, LENGTHS)
    with capture(recurrent) as trace:
        outputs, _ = recurrent(x, LENGTHS)
    torch.testing.assert_close(outputs, plain, atol=1e-5, rtol=1e-5)
    assert set(trace) == {f"layers.{layer}.{name}" for layer in (0, 1) for name in CELLS[cell].tensors}
    directions = 2 if reads == "both" else 1
    assert all(tensor.shape == (BATCH, directions, POSITIONS, WIDTH) for tensor in trace.values())
    hidden = trace["layers.1.hidden"].transpose(1, 2).flatten(2)
    inside = (torch.arange(POSITIONS) < LENGTHS[:, None])[:, :, None]
    torch.testing.assert_close(hidden * inside, outputs, atol=1e-6, rtol=1e-6)
    assert all(layer.tap is None for layer in recurrent.layers)


def test_the_gates_of_an_lstm_make_up_its_cell():
    recurrent = make_recurrent("lstm")
    with capture(recurrent) as trace:
        recurrent(torch.randn(BATCH, POSITIONS, INPUTS))
    gates = {name.rpartition(".")[2]: tensor[:, 0] for name, tensor in trace.items()}
    before = torch.cat([torch.zeros(BATCH, 1, WIDTH), gates["cell"][:, :-1]], 1)
    cell = gates["forget_gate"] * before + gates["input_gate"] * gates["candidate"]
    torch.testing.assert_close(gates["cell"], cell)
    torch.testing.assert_close(gates["hidden"], gates["output_gate"] * cell.tanh())


def test_a_changed_gate_changes_all_later_positions_and_no_earlier_one():
    recurrent = make_recurrent("lstm")
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    plain, _ = recurrent(x)
    forget = {
        "layers.0.forget_gate": Swap({3: [0.0] * WIDTH}),
        "layers.0.input_gate": Swap({3: [0.0] * WIDTH}),
    }
    with intervene(recurrent, forget), capture(recurrent) as trace:
        changed, _ = recurrent(x)
    torch.testing.assert_close(changed[:, :3], plain[:, :3], atol=1e-5, rtol=1e-5)
    assert trace["layers.0.cell"][:, :, 3].count_nonzero() == 0
    forgotten, _ = recurrent(x[:, 4:])  # with nothing in its cell, the layer starts afresh
    torch.testing.assert_close(changed[:, 4:], forgotten, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(changed[:, 4:], plain[:, 4:], atol=1e-3)


@pytest.mark.parametrize("reads", READS)
def test_hidden_states_can_be_patched_from_another_pass(reads):
    recurrent = make_recurrent("gru", reads)
    x, other = torch.randn(2, 1, POSITIONS, INPUTS)
    with capture(recurrent) as trace:
        expected, _ = recurrent(other)
    with intervene(recurrent, {"layers.0.hidden": Patch(trace)}), capture(recurrent) as patched:
        found, _ = recurrent(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(patched["layers.0.hidden"], trace["layers.0.hidden"])


def test_a_swap_reaches_both_directions_at_its_position():
    recurrent = make_recurrent("rnn", "both")
    with intervene(recurrent, {"layers.0.hidden": Swap({2: [0.25] * WIDTH})}), capture(recurrent) as trace:
        outputs, _ = recurrent(torch.randn(BATCH, POSITIONS, INPUTS))
    assert bool((outputs[:, 2] == 0.25).all())
    assert bool((trace["layers.0.hidden"][:, :, 2] == 0.25).all())
    assert not bool((trace["layers.0.hidden"][:, :, 1] == 0.25).any())


def test_a_layer_computes_in_the_precision_of_its_weights_under_autocast():
    layer = RecurrentLayer("lstm", INPUTS, WIDTH)
    x = torch.randn(BATCH, POSITIONS, INPUTS)
    expected, _ = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = layer(x)
    assert torch.equal(found, expected)
