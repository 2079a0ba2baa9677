"""A trace is shown while the pass that makes it goes on."""

import copy
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import torch
from fastapi.testclient import TestClient

from clearhead.errors import ModelError, SettingsError
from clearhead.explorer.app import make_app
from clearhead.explorer.library import LeftError, Library
from clearhead.explorer.measures import contributions
from clearhead.explorer.pending import PendingTrace, look, look_up_to
from clearhead.explorer.run import tell
from clearhead.explorer.server import _await, in_background
from clearhead.explorer.trace_session import StoppedError, TraceSession
from clearhead.explorer.traces import GoneError, Traces

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
    arriving = PendingTrace({}, ["a", "b"])
    arriving.put("a", torch.ones(1))
    arriving.end(ModelError("broken"))
    assert arriving.get(["a"])[0] == 1
    with pytest.raises(ModelError, match="broken"):
        arriving.get(["b"])
    with pytest.raises(ModelError, match="broken"):
        arriving.wait()


def test_a_tensor_that_nobody_brings_is_not_waited_for():
    with pytest.raises(SettingsError, match="was not captured"):
        PendingTrace({}, ["a"]).get(["b"])


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
    given = TraceSession(translator.explain("three one", names=(), target="3 1"), searched.about)
    assert searched.tree is not None
    assert searched.bytes - given.bytes >= 100 * len(searched.tree.nodes) > 0


def test_a_pass_that_nobody_waits_for_is_not_run_to_its_end(translator):
    told = tell(translator, "numbers", {"text": "three one"})
    traces = Traces(10**9)
    traces.add("left", told)

    def leave(states: torch.Tensor) -> torch.Tensor:
        traces.drop("left")
        return states

    told.changes = {"encoder.states": leave}
    told.run()
    with pytest.raises(StoppedError, match="nobody waited"):
        told.wait()
    assert told.values(FIRST).shape[0] == 2
    with pytest.raises(StoppedError):
        told.values("logits")
    with pytest.raises(GoneError):
        traces.found("left")


def test_heads_are_muted_only_as_long_as_somebody_waits(translator):
    told, wanted = tell(translator, "numbers", {"text": "three one"}), iter([True, True, False])
    told.run()
    with pytest.raises(StoppedError, match="no further"):
        contributions(told, wanted.__next__)
    assert list(wanted) == []
    again = translator.explain("three one").log_probability
    assert contributions(told)["log_probability"] == pytest.approx(again, abs=1e-5)


def test_who_has_left_does_not_wait_for_the_model(models):
    library, here = Library(models), threading.Event()
    here.set()
    problems = []

    def ask() -> None:
        with pytest.raises(LeftError) as refused, library.using("numbers", here.is_set):
            pass
        problems.append(refused.value)

    with library.using("numbers"):
        thread = threading.Thread(target=ask)
        thread.start()
        here.clear()
        thread.join(10)
        assert len(problems) == 1
    with library.using("numbers") as (_, name):
        assert name == "numbers"


@contextmanager
def holding(translator):
    """A server whose passes do not come to the decoder until the context ends; how to ask it, and a trace."""
    slow, go, held = copy.copy(translator), threading.Event(), threading.Event()
    slow.model = copy.deepcopy(translator.model)

    def hold(*_: object) -> None:
        held.set()
        assert go.wait(30)

    def ask(path: str, seconds: float = 10, **asked: str) -> dict:
        body = json.dumps(asked).encode() if asked else None
        request = Request(f"{address}api/{path}", body, {"content-type": "application/json"})
        with urlopen(request, timeout=seconds) as answer:
            return json.load(answer)

    with in_background([("slow", slow)]) as address:
        slow.model.get_submodule("decoder").register_forward_pre_hook(hold)
        trace = ask("trace", text="three one", target="3 1")["id"]
        assert held.wait(10)
        try:
            yield ask, trace
        finally:
            go.set()


def test_a_page_that_closes_takes_its_trace_with_it(translator):
    with holding(translator) as (ask, trace):
        with pytest.raises(TimeoutError):
            ask(f"trace/{trace}", 0.3)

        def is_gone() -> bool:
            try:
                return not ask(f"trace/{trace}/logits?place=-1")
            except HTTPError as error:
                return error.code == 404

        deadline = time.monotonic() + 10
        while not is_gone() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert is_gone()


def test_pages_that_have_closed_hold_up_nobody(translator):
    with holding(translator) as (ask, trace):

        def leave(_: int) -> None:
            with suppress(TimeoutError, HTTPError):
                ask(f"trace/{trace}", 1)

        # More than a server has threads for.
        with ThreadPoolExecutor(50) as pages:
            list(pages.map(leave, range(50)))
        assert ask("models")["models"][0]["name"] == "slow"


def test_a_server_that_ends_before_it_answers_is_an_error():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    with pytest.raises(ModelError, match="does not answer"):
        _await(threading.Event(), thread)
