"""Searching in slots gives what greedy and beam search give, whatever the order, beam and number of slots."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from clearhead.decoding import Constraints, beam_search, greedy_search
from clearhead.errors import ModelError
from clearhead.models import Translator, TranslatorConfig
from clearhead.models.slots import SlotEngine
from clearhead.tasks.translation import slots as translation_slots
from clearhead.tasks.translation.slots import search_all_in_slots
from clearhead.text.tokenizer import BOS, EOS

VOCABULARY = 300
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
KINDS = {
    "paper": {},
    "rotary": {"position": "rotary", "norm": "rms", "activation": "swiglu", "norm_position": "pre"},
    "shared keys": {"attention": {"heads": 4, "kv_heads": 2, "qk_norm": "rms"}},
    "narrow heads": {"attention": {"heads": 2, "head_size": 12, "score": "dot"}},
}


def model_of(device: str, **settings) -> Translator:
    torch.manual_seed(1)
    shape = {
        "width": 32,
        "ffn_width": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "attention": {"heads": 4},
        "max_length": 64,
        "readout_bias": "learned",
    }
    model = Translator(TranslatorConfig.model_validate(shape | settings), VOCABULARY).to(device).eval()
    with torch.no_grad():
        # Sharper, so that hypotheses differ clearly, and ends are likely enough.
        model.readout_weight *= 4
        model.readout_bias[EOS] = 10.0
    return model


def sources_of(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(2)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [torch.randint(4, VOCABULARY, (one,), generator=generator).tolist() for one in lengths]


def plain(model: Translator, source: list[int], limit: int, beam: int, penalty: float):
    device = model.readout_weight.device
    state = model.start(
        torch.tensor([[*source, EOS]], device=device), torch.tensor([len(source) + 1], device=device)
    )
    constraints = Constraints(torch.tensor([BOS], device=device), EOS, limit)
    with torch.inference_mode():
        if beam == 1:
            return greedy_search(model.step, state, constraints, penalty)[0]
        return beam_search(model.step, state, constraints, beam, penalty)[0][0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@torch.inference_mode()
def test_slots_find_what_plain_searches_find(monkeypatch, device, beam, settings):
    model = model_of(device, **settings)
    monkeypatch.setattr(translation_slots, "MAX_ROWS", 4 * beam)
    sources = sources_of(23)
    limits = [(1, 4, 25)[number % 3] for number in range(len(sources))]
    found = search_all_in_slots(SlotEngine(model), sources, limits, beam, 0.6)
    endings = set()
    for source, limit, (mine,) in zip(sources, limits, found, strict=True):
        theirs = plain(model, source, limit, beam, 0.6)
        assert mine.tokens == theirs.tokens
        assert mine.complete == theirs.complete
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)
        assert mine.sum_log_prob == pytest.approx(theirs.sum_log_prob, abs=1e-4)
        assert mine.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
        endings.add(mine.complete)
    # The other kinds find one of both too rarely.
    assert settings or endings == {True, False}


@pytest.mark.parametrize("device", DEVICES)
@torch.inference_mode()
def test_slots_are_kept_for_later_texts_and_see_new_weights(device):
    model = model_of(device)
    engine, sources = SlotEngine(model), sources_of(3)
    first = search_all_in_slots(engine, sources, [12] * 3, 4, 0.6)
    again = search_all_in_slots(engine, sources[::-1], [12] * 3, 4, 0.6)
    assert [one.tokens for (one,) in first] == [one.tokens for (one,) in reversed(again)]
    assert len(engine.kept) == 1
    model.readout_bias[EOS] = 100.0
    ended = search_all_in_slots(engine, sources, [12] * 3, 4, 0.6)
    assert [one.tokens for (one,) in ended] == [[], [], []]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("merged", "overhead", "capacities"),
    [(256, 1024, {32}), (16, 1024, {16, 32}), (256, 0, {16, 32}), (0, 1024, {8, 16, 32})],
)
@torch.inference_mode()
def test_short_and_long_sentences_are_searched_together_where_it_saves_time(
    monkeypatch, device, merged, overhead, capacities
):
    model = model_of(device)
    sources, limits = sources_of(12), [(3, 12, 25)[number % 3] for number in range(12)]
    expected = search_all_in_slots(SlotEngine(model), sources, limits, 2, 0.6)
    monkeypatch.setattr(translation_slots, "MIN_CAPACITY", 8)
    monkeypatch.setattr(translation_slots, "MERGED_CAPACITY", merged)
    monkeypatch.setattr(translation_slots, "OVERHEAD_ROWS", overhead)
    engine = SlotEngine(model)
    found = search_all_in_slots(engine, sources, limits, 2, 0.6)
    assert [one.tokens for (one,) in found] == [one.tokens for (one,) in expected]
    assert {capacity for _, _, capacity, _ in engine.kept} == capacities


@pytest.mark.parametrize(("short", "joined"), [(8, True), (500, False)])
def test_one_long_sentence_does_not_hold_many_short_ones(short, joined):
    engine = SlotEngine(model_of("cpu"))
    sources, limits = [[5, 6]] * (short + 1), [*([20] * short), 200]
    groups = translation_slots._groups(engine, sources, limits, 5, 0.0)
    assert groups == ({256: list(range(short + 1))} if joined else {64: list(range(short)), 256: [short]})


@pytest.mark.accel
def test_kernels_compute_the_same_for_all_capacities_that_are_joined():
    pytest.importorskip("triton")
    from clearhead.accel.kernels.cached_attention import SHORT

    assert translation_slots.MERGED_CAPACITY <= SHORT


@pytest.mark.parametrize("device", DEVICES)
@torch.inference_mode()
def test_a_search_is_freed_with_its_engine(device, without_garbage_collection):
    engine = SlotEngine(model_of(device))
    for _ in range(3):
        search_all_in_slots(engine, sources_of(3), [12] * 3, 2, 0.6)
    [search] = map(weakref.ref, engine.kept.values())
    assert search().kept
    del engine
    assert search() is None


def test_old_searches_are_dropped():
    engine = SlotEngine(model_of("cpu"))
    for beam in range(1, 7):
        search_all_in_slots(engine, sources_of(1), [5], beam, 0.0)
    assert len(engine.kept) == translation_slots.MAX_KEPT


def test_threads_do_not_share_a_search():
    """As a server's requests would."""
    engine, sources = SlotEngine(model_of("cpu")), sources_of(12)
    expected = [[one.tokens for (one,) in search_all_in_slots(engine, sources, [9] * 12, 3, 0.6)]] * 6
    with ThreadPoolExecutor(3) as pool:
        runs = pool.map(lambda _: search_all_in_slots(engine, sources, [9] * 12, 3, 0.6), range(6))
        assert [[one.tokens for (one,) in found] for found in runs] == expected


def test_empty_sources_have_no_hypothesis():
    engine = SlotEngine(model_of("cpu"))
    found = search_all_in_slots(engine, [[], [5, 6], []], [5] * 3, 2, 0.6)
    assert [len(one) for one in found] == [0, 1, 0]


@pytest.mark.parametrize("device", DEVICES)
@torch.inference_mode()
def test_broken_weights_are_an_error(device):
    model = model_of(device)
    model.readout_weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        search_all_in_slots(SlotEngine(model), sources_of(2), [5, 5], 2, 0.6)
