"""Steps are exact: accumulated, clipped, averaged, resumed, and skipped when they diverge."""

import math

import pytest
import torch

from clearhead.checkpoint import weights
from clearhead.errors import ModelError, TrainingError
from clearhead.training.optimizer import AdamConfig, MuonConfig
from clearhead.training.schedule import InverseSquareRootSchedule, learning_rate_at


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def copied(state):
    if isinstance(state, torch.Tensor):
        return state.clone()
    return {name: copied(value) for name, value in state.items()} if isinstance(state, dict) else state


def test_the_loss_falls(make_trainer, feed):
    batch = next(feed())
    losses = [report.loss for report in make_trainer(steps=60).steps([batch] * 60)]
    assert losses[-1] < 0.7 * losses[0]


def test_a_report_has_the_measurements_of_its_step(make_trainer, feed):
    schedule = InverseSquareRootSchedule(learning_rate=0.01, warmup=2)
    reports = list(make_trainer(steps=3, schedule=schedule).steps(feed()))
    assert [report.step for report in reports] == [1, 2, 3]
    assert [report.learning_rate for report in reports] == [
        learning_rate_at(schedule, step, 3) for step in (1, 2, 3)
    ]
    for report in reports:
        assert report.padding == 0.25
        assert report.tokens_per_second == pytest.approx(report.tokens / report.seconds)
        assert report.gradient > 0


def test_steps_end_when_there_are_no_more_batches(make_trainer, feed):
    batches = [next(feed()) for _ in range(5)]
    assert len(list(make_trainer(accumulate=2).steps(batches))) == 2


@pytest.mark.parametrize("clip_norm", [0.0, 0.05])
def test_accumulation_equals_one_big_batch(make_trainer, tokens, clip_norm):
    # Rows of unequal numbers of tokens: a mean of means would be wrong.
    rows = torch.randint(1, 20, (8, 7))
    for row in range(8):
        rows[row, 7 - row // 2 :] = 0
    batches = [tokens(rows[:1]), tokens(rows[1:6]), tokens(rows[6:])]
    settings = {"dropout": 0.0, "steps": 1, "clip_norm": clip_norm, "optimizer": AdamConfig(eps=1.0)}
    whole, parts = make_trainer(**settings), make_trainer(accumulate=3, **settings)
    (one,) = whole.steps([tokens(rows)])
    (three,) = parts.steps(batches)
    assert (one.tokens, one.loss) == (three.tokens, pytest.approx(three.loss, abs=1e-6))
    assert one.gradient == pytest.approx(three.gradient, abs=1e-6)
    for name, parameter in whole.model.named_parameters():
        torch.testing.assert_close(parameter, parts.model.get_parameter(name), rtol=0, atol=1e-6)


def test_clipping_scales_the_gradient_to_the_limit(make_trainer, feed):
    trainer = make_trainer(clip_norm=0.01, steps=1)
    seen = []
    trainer.optimizer.step = lambda learning_rate, diverged, divisor: seen.extend(
        p.grad / divisor for p in trainer.model.parameters()
    )
    (report,) = trainer.steps(feed())
    assert report.gradient > 0.01
    assert torch.cat([gradient.flatten() for gradient in seen]).norm() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_diverging_step_leaves_no_trace(make_trainer, loss, feed, bad):
    calls = []

    def spoiled(model, batch):
        calls.append(batch)
        return loss(model, batch) * (bad if len(calls) == 3 else 1.0)

    trainer = make_trainer(loss=spoiled, ema_decay=0.9)
    steps = trainer.steps(feed())
    next(steps), next(steps)
    good = copied(trainer.state())
    with pytest.raises(
        TrainingError, match=r"step 3: the run diverged \(loss (nan|inf), gradient norm .*step 2;"
    ):
        next(steps)
    kept = trainer.state()
    assert kept["step"] == 2
    for group in ("weights", "model"):
        for state in (kept, good):
            del state[group]["calls"]  # the forward pass itself counts these
        assert same(kept[group], good[group])
    assert all(p.grad is None for p in trainer.model.parameters())


@pytest.mark.parametrize("optimizer", [AdamConfig(), MuonConfig()])
@pytest.mark.parametrize("ema_decay", [None, 0.9])
def test_a_resumed_run_ends_bit_identically(make_trainer, feed, optimizer, ema_decay):
    settings = {"optimizer": optimizer, "ema_decay": ema_decay, "accumulate": 2}
    straight = make_trainer(**settings)
    for _ in straight.steps(feed()):
        pass

    first, source = make_trainer(**settings), feed()
    saved, position = {}, {}
    for report in first.steps(source):
        if report.step == 7:
            saved, position = copied(first.state()), source.position
            break
    assert position["consumed"] != 0, "the test is about resuming in mid-epoch"
    torch.rand(5)

    second = make_trainer(seed=99, **settings)
    second.load_state(saved)
    for _ in second.steps(feed(**position)):
        pass
    assert second.step == straight.step == 12
    assert same(weights(second.model), weights(straight.model))
    assert same(second.weights(), straight.weights())


def test_a_state_of_another_model_is_refused_by_name(make_trainer):
    trainer = make_trainer()
    state = trainer.state()
    shorter = {name: tensor for name, tensor in state["weights"].items() if name != "norm.bias"}
    with pytest.raises(ModelError, match=r"the saved state: has no norm\.bias"):
        trainer.load_state(state | {"weights": shorter})
    wrong = state["weights"] | {"norm.bias": torch.zeros(3)}
    with pytest.raises(ModelError, match=r"norm\.bias is 3, .* ask for 12"):
        trainer.load_state(state | {"weights": wrong})
    with pytest.raises(TrainingError, match=r"training\.ema_decay: the run was started with another value"):
        make_trainer(ema_decay=0.5).load_state(state)


@pytest.mark.accel
def test_compiling_changes_no_name_and_hardly_any_number(make_trainer, feed, monkeypatch):
    plain = make_trainer(dropout=0.0, steps=3)
    compiled_by = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **settings: compiled_by(f, backend="eager", **settings))
    compiled = make_trainer(dropout=0.0, steps=3, compile="on")
    for one, other in zip(plain.steps(feed()), compiled.steps(feed()), strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
    assert plain.weights().keys() == compiled.weights().keys()


def test_bf16_trains_with_weights_in_fp32(make_trainer, feed):
    batch = next(feed())
    trainer = make_trainer(precision="bf16", steps=40)
    losses = [report.loss for report in trainer.steps([batch] * 40)]
    assert losses[-1] < 0.8 * losses[0]
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def test_a_batch_that_exceeds_memory_is_computed_in_parts_with_the_same_step(
    make_trainer, loss, feed, caplog
):
    def short_of_memory(model, batch):
        if len(batch.ids) > 1:
            raise torch.OutOfMemoryError("out of memory. Tried to allocate much")
        return loss(model, batch)

    settings = {"dropout": 0.0, "steps": 3, "accumulate": 2}
    whole, parts = make_trainer(**settings), make_trainer(loss=short_of_memory, **settings)
    for one, other in zip(whole.steps(feed()), parts.steps(feed()), strict=True):
        assert (one.tokens, one.loss) == (other.tokens, pytest.approx(other.loss, abs=1e-6))
        assert one.gradient == pytest.approx(other.gradient, abs=1e-6)
    assert [record.message for record in caplog.records] == [
        f"out of memory: batches are now computed in {parts} parts, which gives the same steps"
        for parts in (2, 4)
    ]
    assert parts.state()["parts"] == [4]


def test_memory_too_small_for_a_single_row_is_reported(make_trainer, feed):
    def never(model, batch):
        raise torch.OutOfMemoryError("no memory. Tried to allocate much")

    with pytest.raises(TrainingError, match=r"out of memory with a single row \(no memory\); make batches"):
        next(make_trainer(loss=never).steps(feed()))
