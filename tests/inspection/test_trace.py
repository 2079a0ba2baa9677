"""Capture records tensors and changes nothing."""

import threading

import pytest
import torch

from clearhead.errors import SettingsError
from clearhead.inspection import capture, sites
from clearhead.inspection.trace import first_tensors
from clearhead.layers.layout import Padded
from clearhead.models import Translator, TranslatorConfig


@pytest.fixture
def model() -> Translator:
    torch.manual_seed(0)
    settings = {
        "width": 16,
        "ffn_width": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "attention": {"heads": 2},
    }
    return Translator(TranslatorConfig.model_validate(settings), vocabulary=20).eval()


@pytest.fixture
def inputs() -> tuple[torch.Tensor, Padded, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, 20, (2, 5), generator=generator)
    return source, Padded(torch.tensor([5, 3])), torch.randint(4, 20, (2, 4), generator=generator)


def test_a_single_name_may_be_a_string(model, inputs):
    with capture(model, "logits") as trace:
        model(*inputs)
    assert list(trace) == ["logits"]


def test_capturing_something_other_than_a_module_is_an_error():
    with (
        pytest.raises(SettingsError, match=r"object: not a torch module; pass its \.model"),
        capture(object()),
    ):  # pyright: ignore[reportArgumentType]
        pass


def test_capture_changes_no_output(model, inputs):
    plain = model(*inputs)
    with capture(model):
        captured = model(*inputs)
    torch.testing.assert_close(captured, plain, atol=1e-6, rtol=1e-5)
    assert torch.equal(model(*inputs), plain)


def test_weights_are_named_by_module_path_and_sum_to_one(model, inputs):
    with capture(model, ["decoder.blocks.*.cross_attention.weights"]) as trace:
        model(*inputs)
    assert list(trace) == [f"decoder.blocks.{block}.cross_attention.weights" for block in (0, 1)]
    weights = trace["decoder.blocks.1.cross_attention.weights"]
    assert weights.shape == (2, 2, 4, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 4))
    assert (weights[1, :, :, 3:] == 0).all(), "padding gets no weight"


def test_modules_that_are_not_captured_keep_the_fused_path(model, inputs):
    with capture(model, ["encoder.*"]):
        tapped = [path for path, module in model.named_modules() if getattr(module, "tap", None)]
    assert tapped == ["encoder.blocks.0.attention", "encoder.blocks.1.attention"]


def test_nothing_remains_after_an_exception(model):
    with pytest.raises(ZeroDivisionError), capture(model):
        raise ZeroDivisionError
    assert all(getattr(module, "tap", None) is None for module in model.modules())


def test_captures_nest(model, inputs):
    with capture(model, ["encoder.*.weights"]) as outer:
        with capture(model, ["encoder.*.scores"]) as inner:
            model(*inputs)
        model(*inputs)
    assert {name.split(".")[-1] for name in outer} == {"weights"}
    assert {name.split(".")[-1] for name in inner} == {"scores"}


def test_an_unknown_name_is_an_error_with_a_suggestion(model):
    with (
        pytest.raises(
            SettingsError, match=r"no tensor of the model has this name; did you mean encoder\.blocks"
        ),
        capture(model, ["encoder.blocks.0.attention.wieghts"]),
    ):
        pass


def test_names_must_be_strings(model):
    with pytest.raises(SettingsError, match="names: None is not a list"), capture(model, None):
        pass
    with pytest.raises(SettingsError, match="names: 3 is not a string"), capture(model, ["logits", 3]):
        pass


def test_one_pass_computes_every_tensor_of_every_kind_of_model(case):
    with capture(case.model) as trace:
        captured = case.logits(case.text())
    assert set(trace) == set(sites(case.model))
    assert all(len(tensor) == 1 for tensor in trace.values()), "all have the batch axis"
    torch.testing.assert_close(captured, case.logits(case.text()), atol=1e-5, rtol=1e-5)


def test_each_step_of_an_attention_follows_from_those_before(case):
    with capture(case.model) as trace:
        case.logits(case.text())
    paths = [name.removesuffix(".weights") for name in trace if name.endswith(".weights")]
    assert len(paths) == (6 if case.translates else 2)
    for path in paths:
        steps = {
            name: trace[f"{path}.{name}"] for name in ("scores", "masked", "weights", "values", "head_output")
        }
        visible = steps["masked"].isfinite()
        assert torch.equal(steps["masked"][visible], steps["scores"][visible])
        torch.testing.assert_close(steps["weights"], steps["masked"].softmax(-1))
        torch.testing.assert_close(steps["head_output"], steps["weights"] @ steps["values"])
        output = case.model.get_submodule(path).output
        with torch.no_grad():
            added = output(steps["head_output"].transpose(1, 2).flatten(2))
        torch.testing.assert_close(trace[f"{path}.added"], added)


def test_the_stream_is_the_sum_of_embeddings_and_all_additions(case):
    with capture(case.model) as trace:
        logits = case.logits(case.text())
    parts = {"encoder": "source_embedding", "decoder": "target_embedding"}
    for stack, embedding in parts.items() if case.translates else [("decoder", "embedding")]:
        positions = trace.get(f"{embedding}.position_embeddings", torch.zeros(()))
        stream = trace[f"{embedding}.token_embeddings"] + positions
        torch.testing.assert_close(trace[f"{embedding}.stream"], stream)
        layer = [("attention", "attention_residual"), ("feedforward", "feedforward_residual")]
        if stack == "decoder" and case.translates:
            layer.insert(1, ("cross_attention", "cross_residual"))
        for block in (0, 1):
            for sublayer, residual in layer:
                path = f"{stack}.blocks.{block}"
                stream = stream + trace[f"{path}.{sublayer}.added"]
                if case.model.config.norm_position == "post":
                    with torch.no_grad():
                        stream = case.model.get_submodule(f"{path}.{residual}.norm")(stream)
                torch.testing.assert_close(trace[f"{path}.{residual}.stream"], stream)
        with torch.no_grad():
            states = case.model.get_submodule(f"{stack}.norm")(stream)
        torch.testing.assert_close(trace[f"{stack}.states"], states)
    assert torch.equal(trace["logits"], logits)


def test_cached_steps_equal_a_full_pass(case):
    names = ["decoder.*.weights", "decoder.*.stream", "logits"]
    with capture(case.model, names) as whole:
        case.logits(case.text())
    with capture(case.model, names) as stepped:
        case.steps(case.text())
    assert set(stepped) == set(whole)
    for name, tensor in whole.items():
        torch.testing.assert_close(stepped[name], tensor, msg=name)


def test_capturing_additions_keeps_the_fused_path(model, inputs):
    with capture(model, ["*.added", "*.stream", "*.token_embeddings"]) as trace:
        tapped = [path for path, module in model.named_modules() if getattr(module, "tap", None)]
        model(*inputs)
    assert tapped == []
    assert len(trace) == 10 + 12 + 2


def test_each_thread_captures_only_its_own_passes(case_of):
    case = case_of("gpt")
    texts = [case.text(seed, target=4 + seed) for seed in range(4)]
    expected = [case.logits(text) for text in texts]
    found, ready = {}, threading.Barrier(4)

    def work(number):
        for _ in range(20):
            ready.wait()
            with capture(case.model, ["logits", "decoder.blocks.0.attention.weights"]) as trace:
                ready.wait()
                case.logits(texts[number])
            found.setdefault(number, []).append(dict(trace))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, traces in found.items():
        assert len(traces) == 20
        for trace in traces:
            torch.testing.assert_close(trace["logits"], expected[number], atol=1e-5, rtol=1e-5)
            assert trace["decoder.blocks.0.attention.weights"].shape[-1] == 4 + number
    assert_untouched(case.model)


def assert_untouched(model):
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert getattr(module, "tap", None) is None


def test_captures_may_end_in_any_order(case_of):
    case = case_of("translator")
    first, second = capture(case.model, ["*.weights"]), capture(case.model, ["*.weights", "*.stream"])
    one, two = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    case.logits(case.text())
    second.__exit__(None, None, None)
    assert len(one) == 0
    assert len(two) == 6 + 2 + 4 + 6
    assert_untouched(case.model)


def test_an_existing_tap_is_kept(model, inputs):
    own = []
    attention = model.encoder.blocks[0].attention
    attention.tap = tap = lambda name, tensor: own.append(name) or tensor
    with capture(model, ["encoder.*"]):
        model(*inputs)
    assert own == ["queries", "keys", "scores", "masked", "weights", "values", "head_output"]
    assert attention.tap is tap


def test_a_missing_tensor_is_an_error_with_a_suggestion(model, inputs):
    with capture(model, ["encoder.*.weights"]) as trace:
        model(*inputs)
    assert trace.get("logits") is None
    with pytest.raises(
        KeyError, match=r"attention.wieghts: was not captured; did you mean encoder\.blocks\.0"
    ):
        trace["encoder.blocks.0.attention.wieghts"]


def test_tensors_can_be_received_as_they_are_computed(model, inputs):
    received = []
    with capture(model, ["encoder.*.weights"], keep=lambda name, tensor: received.append(name)) as trace:
        model(*inputs)
    assert received == ["encoder.blocks.0.attention.weights", "encoder.blocks.1.attention.weights"]
    assert len(trace) == 0


def test_a_pass_for_some_tensors_stops_after_the_last_of_them(model, inputs):
    finished = []
    names = ["encoder.states", "encoder.*.weights"]
    found = first_tensors(model, lambda: finished.append(model(*inputs)) or finished[0], names)
    with capture(model, names) as trace:
        model(*inputs)
    assert finished == []
    assert set(found) == set(trace)
    assert all(torch.equal(found[name], trace[name]) for name in trace)
    assert_untouched(model)
