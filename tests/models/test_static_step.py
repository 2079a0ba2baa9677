"""Steps over static caches equal the steps of the model, traced or not."""

import jaxtyping
import pytest
import torch

from clearhead.accel import int8, tracing
from clearhead.accel.packing import COPIES
from clearhead.decoding import Constraints, beam_search, greedy_search
from clearhead.models import GPT, GPTConfig, Translator, TranslatorConfig
from clearhead.models.static_step import StepEngine, supports_static_caches

pytestmark = pytest.mark.accel
VOCABULARY, END = 700, 5
PRECISIONS = ["fp32", pytest.param("int8", marks=pytest.mark.skipif(not int8.supported(), reason="no int8"))]


def translator(**settings) -> Translator:
    shape = {"width": 32, "ffn_width": 64, "encoder_layers": 1, "decoder_layers": 2, "max_length": 64}
    config = TranslatorConfig.model_validate({**shape, "attention": {"heads": 4}, **settings})
    return Translator(config, VOCABULARY).eval()


@pytest.fixture
def unchecked_shapes():
    """Lets a trace be recorded: inside it, sizes are tensors, which shape annotations reject."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def sources(rows: int, length: int, padded: bool) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.randint(1, length + 1, (rows,)) if padded else torch.full((rows,), length)
    lengths[0] = length
    return torch.randint(10, VOCABULARY, (rows, length)), lengths


def found(model, source, lengths, beam: int) -> list[tuple[list[int], float]]:
    """What a search finds, with the scores."""
    constraints = Constraints(torch.full((len(source),), 2), END, 40)
    with torch.inference_mode():
        state = model.start(source, lengths)
        if beam == 1:
            best = greedy_search(model.step, state, constraints)
        else:
            best = [
                one for some in beam_search(model.step, state, constraints, beam, nbest=beam) for one in some
            ]
    return [(one.tokens, one.score) for one in best]


@torch.inference_mode()
@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "learned", "none"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
@pytest.mark.parametrize("padded", [True, False])
def test_steps_equal_those_of_the_model(position, norm_position, padded):
    model = translator(position=position, norm_position=norm_position)
    engine, (source, lengths) = StepEngine(model), sources(5, 9, padded)
    plain, static = model.start(source, lengths), engine.start(source, lengths)
    rows = torch.arange(5).repeat_interleave(3)
    for number in range(30):
        tokens = torch.randint(10, VOCABULARY, (len(plain.sentences),))
        torch.testing.assert_close(
            engine.step(tokens, static), model.step(tokens, plain), rtol=1e-4, atol=1e-5
        )
        if number == 3:
            plain.select(rows)
            static.select(rows)
        if number == 9:
            # Rows move within their sentence, and one sentence is dropped.
            kept = torch.tensor([1, 0, 2, 3, 3, 4, 11, 10, 9, 12, 12, 12])
            plain.select(kept)
            static.select(kept)
    assert static.length == 30


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("beam", [1, 3])
def test_traced_searches_find_what_untraced_ones_find_to_the_bit(
    precision, beam, monkeypatch, unchecked_shapes
):
    model = translator()
    copy = COPIES[precision](model, model.readout_weight)
    engines = [StepEngine(copy), StepEngine(copy)]
    for rows, length, padded in ((1, 4, False), (6, 12, True), (2, 20, True), (9, 7, False), (1, 30, False)):
        given, both = sources(rows, length, padded), []
        for engine, calls in zip(engines, (2, 10**9), strict=True):
            monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", calls)
            both.append(found(engine, *given, beam))
        assert both[0] == both[1]
    traced, untraced = ([step._traced for step in engine._steps.values()] for engine in engines)
    assert any(traced)
    assert not any(untraced)


@torch.inference_mode()
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "learned", "none", "fraction"])
def test_traced_starts_equal_untraced_ones_to_the_bit(precision, position, monkeypatch, unchecked_shapes):
    model = translator(position=position, norm_position="pre")
    copy = COPIES[precision](model, model.readout_weight)
    engines = [StepEngine(copy), StepEngine(copy)]
    # On either side of the number of queries from which attention takes another path, twice.
    for rows, length, padded in (
        (3, 4, True),
        (5, 12, True),
        (1, 8, False),
        (7, 40, True),
        (2, 1, False),
    ) * 2:
        given, both = sources(rows, length, padded), []
        for engine, calls in zip(engines, (2, 10**9), strict=True):
            monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", calls)
            both.append(engine.start(*given))
        for ours, untraced in zip(both[0].source.blocks, both[1].source.blocks, strict=True):
            torch.testing.assert_close(ours.keys, untraced.keys, rtol=0, atol=0)
            torch.testing.assert_close(ours.values, untraced.values, rtol=0, atol=0)
    traced, untraced = ([start._traced for start in engine._starts.values()] for engine in engines)
    assert all(traced)
    assert not any(untraced)


@torch.inference_mode()
def test_a_trace_keeps_the_branches_of_packed_layers(monkeypatch, unchecked_shapes):
    # Matrices of this size are packed, and branch by the number of rows.
    model = translator(width=256, ffn_width=1024, norm_position="pre", decoder_layers=1)
    engines = [StepEngine(COPIES["fp32"](model, model.readout_weight)) for _ in range(2)]
    for rows, length in ((2, 9), (40, 12), (1, 2), (3, 9), (50, 12), (1, 2), (2, 1)):
        given, both = sources(rows, length, padded=True), []
        for engine, calls in zip(engines, (1, 10**9), strict=True):
            monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", calls)
            state = engine.start(*given)
            both.append((state.source.blocks[0].keys, engine.step(torch.full((rows,), 2), state)))
        for traced, untraced in zip(*both, strict=True):
            torch.testing.assert_close(traced, untraced, rtol=0, atol=0)


@torch.inference_mode()
@pytest.mark.parametrize("score", ["additive", "dot", "general", "cosine"])
def test_starts_of_every_score_equal_those_of_the_model(score, monkeypatch, unchecked_shapes):
    monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", 1)
    model = translator(attention={"heads": 4, "score": score})
    engine = StepEngine(model)
    for _ in range(3):
        given = sources(4, 9, padded=True)
        tokens = torch.randint(10, VOCABULARY, (4,))
        static, plain = engine.start(*given), model.start(*given)
        torch.testing.assert_close(
            engine.step(tokens, static), model.step(tokens, plain), rtol=1e-4, atol=1e-5
        )
    assert bool(engine._starts) == (score != "additive")
    assert all(start._traced for start in engine._starts.values())


@pytest.mark.parametrize("beam", [1, 4])
def test_searches_in_fp32_find_what_the_model_finds(beam, monkeypatch, unchecked_shapes):
    monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", 5)
    model = translator(norm_position="pre")
    engine = StepEngine(COPIES["fp32"](model, model.readout_weight))
    for seed in range(6):
        torch.manual_seed(seed)
        given = sources(7, 11, padded=seed % 2 == 0)
        ours, plain = found(engine, *given, beam), found(model, *given, beam)
        assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in plain]
        assert [score for _, score in ours] == pytest.approx([score for _, score in plain], abs=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_steps_of_a_gpt_with_padded_prompts_equal_those_of_the_model(position, monkeypatch, unchecked_shapes):
    monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", 4)
    shape = {"width": 32, "ffn_width": 64, "layers": 2, "attention": {"heads": 4}, "context_length": 64}
    model = GPT(GPTConfig.model_validate({**shape, "position": position}), VOCABULARY).eval()
    engine, prompts = StepEngine(model), torch.randint(0, VOCABULARY, (3, 6))
    for lengths in (torch.tensor([6, 2, 4]), None):
        plain, static = model.start(prompts, lengths), engine.start(prompts, lengths)
        for number in range(20):
            if number == 8:
                for state in (plain, static):
                    state.select(torch.tensor([2, 0]))
            tokens = torch.randint(0, VOCABULARY, (2 if number >= 8 else 3,))
            torch.testing.assert_close(
                engine.step(tokens, static), model.step(tokens, plain), rtol=1e-4, atol=1e-5
            )


def test_static_caches_need_masks_and_positions_that_ignore_their_size():
    assert supports_static_caches(GPTConfig(position="rotary"))
    assert not supports_static_caches(GPTConfig(position="alibi"))
    assert not supports_static_caches(GPTConfig(window=16))
