"""A trace is shown while the pass that makes it goes on."""

import copy
import threading

import pytest
import torch
from fastapi.testclient import TestClient

from clearhead.errors import ModelError, SettingsError
from clearhead.serving.app import make_app
from clearhead.serving.library import Library
from clearhead.tasks.showing.arriving import Arriving, look, look_up_to
from clearhead.tasks.showing.asking import tell
from clearhead.tasks.showing.told import Told

FIRST = "encoder.blocks.0.attention.weights"


@pytest.fixture
def held(translator):
    """A trace whose pass is under way, held before its logits; what lets it go on; and the same in Python."""
    told, go = tell(translator, "numbers", {"text": "three one"}), threading.Event()
    explained = translator.explain("three one")

    def wait(logits: torch.Tensor) -> torch.Tensor:
        assert go.wait(10)
        return logits

    told.changes = {"logits": wait}
    thread = threading.Thread(target=told.run)
    thread.start()
    yield told, go, explained
    go.set()
    thread.join()


def test_the_first_numbers_are_there_before_the_last_and_are_those_of_python(held):
    told, go, explained = held
    assert torch.equal(told.values(FIRST), explained[FIRST])
    unfinished = told.manifest()
    assert unfinished["agreement"] is None
    assert unfinished["output"]["log_probability"] is None
    assert unfinished["output"]["text"] == explained.output
    go.set()
    assert torch.equal(told.values("logits"), explained["logits"])
    finished = told.wait().manifest()
    assert finished["agreement"] < 1e-5
    assert finished["sides"]["target"] == [token.record() for token in explained.target]


def test_without_names_nothing_is_looked_at(translator):
    told = translator.explain("three one", names=())
    assert len(told.trace) == 0
    assert [token.log_probability for token in told.target] == [None] * len(told.target)
    assert told.output == translator.explain("three one").output


def test_a_pass_ends_with_the_last_tensor_that_is_wanted(translator):
    told = translator.explain("three one", names=())
    seen = []

    def note(states: torch.Tensor) -> torch.Tensor:
        seen.append(states.shape)
        return states

    found = look_up_to(told, {"decoder.states": note}, [FIRST])
    assert list(found) == [FIRST]
    assert seen == []
    everything = {}
    look(told, {"decoder.states": note}, [FIRST], everything.__setitem__)
    assert len(seen) == 1
    assert torch.equal(found[FIRST], everything[FIRST])


def test_who_waits_for_a_pass_that_fails_is_told_why():
    arriving = Arriving({}, ["a", "b"])
    arriving.put("a", torch.ones(1))
    arriving.end(ModelError("broken"))
    assert arriving.get(["a"])[0] == 1
    with pytest.raises(ModelError, match="broken"):
        arriving.get(["b"])
    with pytest.raises(ModelError, match="broken"):
        arriving.wait()


def test_a_tensor_that_nobody_brings_is_not_waited_for():
    with pytest.raises(SettingsError, match="was not captured"):
        Arriving({}, ["a"]).get(["b"])


@pytest.mark.parametrize("more", [{}, {"target": "3 1"}])
def test_a_model_of_broken_weights_is_refused_in_one_line(translator, more):
    broken = copy.copy(translator)
    broken.model = copy.deepcopy(translator.model)
    with torch.no_grad():
        broken.model.get_parameter("decoder.blocks.0.feedforward.outer.weight").fill_(float("nan"))
    client = TestClient(make_app(Library([("broken", broken)])), base_url="http://127.0.0.1")
    answer = client.post("/api/trace", json={"text": "three one", **more})
    if more:
        answer = client.get(f"/api/trace/{answer.json()['id']}")
    assert answer.status_code == 400
    assert "the model gave no numbers (NaN)" in answer.json()["error"]


def test_the_tree_of_a_search_counts_as_memory(translator):
    searched = tell(translator, "numbers", {"text": "three one"})
    given = Told(translator.explain("three one", names=(), target="3 1"), searched.about)
    assert searched.tree is not None
    assert searched.bytes - given.bytes >= 100 * len(searched.tree.nodes) > 0
