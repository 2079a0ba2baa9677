"""Passes give the same gradients whether plain, compiled, recorded, packed or padded."""

import copy
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch

from clearhead.accel.compile import CompiledRegions
from clearhead.accel.graphs import GraphedPasses
from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.data.store import TokenSequences
from clearhead.models import Translator, TranslatorConfig
from clearhead.tasks.translation.task import translation_loss
from clearhead.training import DivergedError, Trainer, TrainingConfig
from clearhead.training.parallel import COMPILED_METHODS, Passes
from clearhead.training.schedule import ConstantSchedule

VOCABULARY = 60
gpu = pytest.mark.gpu


def translator(dropout: float = 0.0) -> Translator:
    torch.manual_seed(0)
    shape = {
        "width": 64,
        "ffn_width": 128,
        "attention": {"heads": 4},
        "encoder_layers": 2,
        "decoder_layers": 2,
    }
    return Translator(TranslatorConfig.model_validate({**shape, "dropout": dropout}), VOCABULARY)


def sides(seed: int = 0, count: int = 24) -> tuple[TokenSequences, TokenSequences]:
    random = np.random.default_rng(seed)
    source, target = (
        [random.integers(4, VOCABULARY, n) for n in random.integers(1, 15, count)] for _ in "st"
    )
    return TokenSequences.of(source), TokenSequences.of(target)


def packed(seed: int = 0) -> PackedBatch:
    return PackedBatch.pack(*sides(seed), np.arange(24) // 4, 6, 64)


def padded(seed: int = 0) -> PairBatch:
    return PairBatch.gather(*sides(seed))


def loss(model, batch) -> torch.Tensor:
    return translation_loss(model, batch, label_smoothing=0.1)


def autocast(precision: torch.dtype, device: torch.device):
    return torch.autocast(device.type, precision, enabled=precision != torch.float32)


def gradients(model: torch.nn.Module) -> torch.Tensor:
    found = [parameter.grad for parameter in model.parameters()]
    return torch.cat([gradient.float().flatten() for gradient in found if gradient is not None])


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return ((one - other).norm() / other.norm()).item()


def plain_passes(model: Translator, device: str, precision: torch.dtype = torch.float32) -> Passes:
    parameters, where = list(model.parameters()), torch.device(device)
    return Passes(partial(loss, model), parameters, where, lambda: autocast(precision, where))


def recorded(model: Translator, precision: torch.dtype, compiled: bool) -> GraphedPasses:
    plain = plain_passes(model, "cuda:0", precision)
    context = CompiledRegions(model, COMPILED_METHODS).active if compiled else nullcontext
    return GraphedPasses(plain, plain.parameters, plain.device, context)


@pytest.mark.accel
def test_compiled_regions_leave_the_model_as_it_was(monkeypatch):
    # Compiling itself is torch's business, and warns about its own parts.
    monkeypatch.setattr(torch, "compile", lambda forward, **settings: lambda *inputs: forward(*inputs))
    model = translator()
    before = model(*_inputs())
    with CompiledRegions(model, COMPILED_METHODS).active():
        assert all("forward" in vars(block) for block in model.encoder.blocks)
        assert "add_positions" in vars(model.source_embedding)
    assert not any("forward" in vars(block) for block in model.encoder.blocks)
    assert "add_positions" not in vars(model.source_embedding)
    assert torch.equal(model(*_inputs()), before)


def _inputs():
    from clearhead.layers.layout import Padded

    batch = padded()
    return batch.source, Padded(batch.source_lengths), batch.inputs


@pytest.mark.parametrize("batch", [packed(), padded()], ids=["packed", "padded"])
@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_the_parts_of_a_batch_have_its_rows_and_its_gradient(batch, count):
    model = translator()
    passes = plain_passes(model, "cpu")
    whole = passes(batch)
    expected = gradients(model)
    passes.zero_grad()
    parts = batch.split(count)
    assert len(parts) <= min(count, len(batch))
    assert sum(part.tokens for part in parts) == batch.tokens
    torch.testing.assert_close(torch.stack([passes(part) for part in parts]).sum(), whole)
    torch.testing.assert_close(gradients(model), expected, rtol=1e-4, atol=1e-5)


@gpu
@pytest.mark.accel
@pytest.mark.parametrize("compiled", [False, True])
def test_recorded_passes_give_the_gradients_of_plain_ones(compiled):
    model = translator().cuda()
    plain = plain_passes(model, "cuda:0")
    replayed = recorded(model, torch.float32, compiled)
    for number in range(3):
        plain.zero_grad()
        expected, right = plain(packed(number)), gradients(model)
        replayed.zero_grad()
        torch.testing.assert_close(replayed(packed(number)), expected, rtol=1e-5, atol=0)
        assert distance(gradients(model), right) < 1e-5
        for times in (2, 3):
            replayed(packed(number))
            assert distance(gradients(model), times * right) < 1e-5, "gradients add up"


@gpu
@pytest.mark.accel
@pytest.mark.parametrize("compiled", [False, True])
def test_recorded_passes_in_bf16_are_as_near_to_fp32_as_plain_ones(compiled):
    model = translator().cuda()
    exact = plain_passes(model, "cuda:0")
    plain = plain_passes(model, "cuda:0", torch.bfloat16)
    found = {}
    for name, passes in (
        ("exact", exact),
        ("plain", plain),
        ("recorded", recorded(model, torch.bfloat16, compiled)),
    ):
        passes.zero_grad()
        passes(packed())
        found[name] = gradients(model)
    usual, ours = (distance(found[name], found["exact"]) for name in ("plain", "recorded"))
    assert ours < 1.2 * usual < 0.1


@gpu
@pytest.mark.accel
def test_packed_and_padded_batches_give_the_same_gradients():
    model = translator().cuda()

    def found(precision: torch.dtype, batch: PairBatch | PackedBatch) -> torch.Tensor:
        passes = recorded(model, precision, compiled=True)
        passes.zero_grad()
        passes(batch)
        return gradients(model) / batch.tokens

    rows = np.arange(800) // 4
    many = PackedBatch.pack(*sides(3, 800), rows, 200, 64), PairBatch.gather(*sides(3, 800))
    (one, narrow), (same, exact) = (
        [found(kind, batch) for batch in many] for kind in (torch.bfloat16, torch.float32)
    )
    assert distance(same, exact) < 1e-5
    assert (one - narrow).abs().max() < 1e-3
    assert distance(one, exact) < 1.2 * distance(narrow, exact), "packing adds nothing to bf16's own error"


@gpu
@pytest.mark.accel
def test_recording_changes_neither_random_numbers_nor_gradients():
    model = translator(dropout=0.3).cuda()
    passes = recorded(model, torch.bfloat16, compiled=True)
    found = []
    for _ in range(2):
        torch.cuda.manual_seed(5)
        passes.zero_grad()
        found.append((passes(packed(1)), passes(packed(2)), gradients(model)))
    (first, second, early), (again, same, late) = found
    assert (first, second) == (again, same)
    assert torch.equal(early, late)
    assert first != passes(packed(1)), "random numbers differ from pass to pass"


def trained(steps: int, **settings) -> tuple[Trainer, list[float]]:
    model = translator(dropout=0.1)
    config = TrainingConfig(
        steps=12, schedule=ConstantSchedule(learning_rate=1e-3), device="cuda", compile="on", **settings
    )
    trainer = Trainer(model, loss, config)
    return trainer, [report.loss for report in trainer.steps(packed(number) for number in range(steps))]


@gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_on_a_gpu_learns_and_resumes(precision):
    torch.cuda.manual_seed(3)
    whole, losses = trained(12, precision=precision, ema_decay=0.9)
    assert losses[-1] < losses[0]
    torch.cuda.manual_seed(3)
    first, early = trained(6, precision=precision, ema_decay=0.9)
    state = copy.deepcopy(first.state())
    second, _ = trained(0, precision=precision, ema_decay=0.9)
    second.load_state(state)
    late = [report.loss for report in second.steps(packed(number) for number in range(6, 12))]
    assert early + late == pytest.approx(losses, rel=1e-6)
    for name, tensor in whole.weights().items():
        torch.testing.assert_close(second.weights()[name], tensor)


@gpu
def test_a_diverging_step_on_a_gpu_is_skipped_and_reported():
    trainer = Trainer(
        translator(),
        lambda model, batch: loss(model, batch) / (batch.source[0, 0] != 7),
        TrainingConfig(steps=12, schedule=ConstantSchedule(learning_rate=1e-3), device="cuda", ema_decay=0.9),
    )
    good, bad = packed(1), packed(2)
    good.cells[0, 0, 0], bad.cells[0, 0, 0] = 8, 7
    reports = trainer.steps([good, good, bad, good, good, good, good])
    next(reports), next(reports)
    trainer.synchronize()
    before = {name: tensor.clone() for name, tensor in trainer.weights().items()}
    with pytest.raises(DivergedError, match=r"step 3: .* still those of step 2"):
        list(reports)
    assert trainer.step == 2
    for name, tensor in trainer.weights().items():
        assert torch.equal(tensor, before[name]), name
