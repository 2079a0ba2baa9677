"""Peers write the same tokens as the model that was exported to them."""

import pytest
import torch

from clearhead.errors import DataError, ModelError
from clearhead.tasks.benchmark import SpeedTest

CPU = torch.device("cpu")


def test_peers_translate_alike(number_model, tmp_path):
    test = SpeedTest(str(number_model), CPU)
    assert test.source == "held out"
    loaded = list(test.prepare(tmp_path))
    assert not test.missing
    assert not [one for one in test.skipped if one.name != "clearhead int8"]
    assert sorted(one.name for one in [*test.contenders, *test.skipped]) == sorted(loaded)
    texts = test.inputs[:8]
    # In fp32, all search for the same translations; a length penalty would differ.
    exact = {one.name: one.decode for one in test.contenders if one.name.endswith("fp32")}
    assert len(exact) == 3
    for beam in (1, 4):
        found = {name: decode(texts, beam, test.subject.limits(texts)) for name, decode in exact.items()}
        assert found["CTranslate2 fp32"] == found["clearhead fp32"]
        if beam == 1:
            assert found["Hugging Face fp32"] == found["clearhead fp32"]


def test_peers_continue_alike(gpt_model, tmp_path):
    test = SpeedTest(str(gpt_model), CPU, texts=["to be or not to be", "be to or be", "not to"])
    list(test.prepare(tmp_path))
    exact = {one.name: one.decode for one in test.contenders if one.name.endswith("fp32")}
    assert len(exact) == 3, test.skipped
    found = [decode(test.inputs, 1, test.subject.limits(test.inputs)) for decode in exact.values()]
    assert found[0] == found[1] == found[2]


def test_every_case_gives_rounds_for_all(number_model, tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.tasks.benchmark.PEERS", ())
    monkeypatch.setattr("clearhead.tasks.speed.WARM_UP_STEPS", 0)
    threads = torch.get_num_threads()
    test = SpeedTest(str(number_model), CPU, threads=threads + 1)
    list(test.prepare(tmp_path))
    for case in test.cases:
        [found] = test.rounds(case, rounds=1, seconds=0.0)
        assert list(found) == [one.name for one in test.contenders]
        assert all(one.texts % case.batch == 0 and one.tokens > one.texts for one in found.values())
    assert torch.get_num_threads() == threads


def test_a_gpt_continues_prompts_of_one_length(gpt_model, tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.tasks.benchmark.PEERS", ())
    test = SpeedTest(str(gpt_model), CPU, texts=["to be or not to be"])
    assert {len(prompt) for prompt in test.inputs} == {8}
    list(test.prepare(tmp_path))
    for one in test.contenders:
        assert [len(tokens) for tokens in one.decode(test.inputs, 1, (24, 24))] == [24] * len(test.inputs)


def test_models_and_texts_that_cannot_be_measured_are_named(number_model):
    with pytest.raises(ModelError, match="masked-en: a model of kind 'encoder' is not measured; name a"):
        SpeedTest("masked-en", CPU)
    with pytest.raises(DataError, match="no text to measure it with fits the model"):
        SpeedTest(str(number_model), CPU, texts=["one " * 200])
