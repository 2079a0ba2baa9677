"""A trace is usable while the pass that captures it still runs."""

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
from clearhead.explorer.library import DisconnectedError, Library, TraceCache, UnknownTraceError
from clearhead.explorer.measures import contributions
from clearhead.explorer.pending import PendingTrace
from clearhead.explorer.server import _wait_until_ready, in_background
from clearhead.explorer.trace_session import StoppedError, TraceSession, start_trace

FIRST = "encoder.blocks.0.attention.weights"


@pytest.fixture
def held(translator):
    """A session held before its logits, the event that releases it, and the same explanation."""
    session, go = start_trace(translator, "numbers", {"text": "three one"}), threading.Event()
    explanation = translator.explain("three one")

    def wait(logits: torch.Tensor) -> torch.Tensor:
        assert go.wait(10)
        return logits

    session.edits = {"logits": wait}
    thread = threading.Thread(target=session.run)
    thread.start()
    yield session, go, explanation
    go.set()
    thread.join()


def test_the_first_tensors_arrive_before_the_last_and_equal_python(held):
    session, go, explanation = held
    assert torch.equal(session.values(FIRST), explanation[FIRST])
    unfinished = session.manifest()
    assert unfinished["difference"] is None
    assert unfinished["output"]["log_prob"] is None
    assert unfinished["output"]["text"] == explanation.output
    go.set()
    assert torch.equal(session.values("logits"), explanation["logits"])
    finished = session.wait().manifest()
    assert finished["difference"] < 1e-5
    log_probs = [token["log_prob"] for token in finished["sides"]["target"]]
    assert log_probs == [token.log_prob for token in explanation.target]


def test_without_names_nothing_is_captured(translator):
    session = translator.explain("three one", names=())
    assert len(session.trace) == 0
    assert [token.log_prob for token in session.target] == [None] * len(session.target)
    assert session.output == translator.explain("three one").output


def test_a_tensor_on_request_runs_the_pass_no_further(translator, monkeypatch):
    monkeypatch.setattr("clearhead.explorer.trace_session.KEPT_BYTES", 1000)
    session, seen, name = start_trace(translator, "numbers", {"text": "three one"}), [], FIRST[:-7] + "scores"
    session.run()

    def note(states: torch.Tensor) -> torch.Tensor:
        seen.append(states.shape)
        return states

    session.edits = {"decoder.states": note}
    assert not session.holds(name)
    session.fetch(name)
    assert seen == []
    assert torch.equal(session.values(name), translator.explain("three one")[name])


def test_readers_of_a_failed_pass_get_its_error():
    pending = PendingTrace({}, ["a", "b"])
    pending.put("a", torch.ones(1))
    pending.finish(ModelError("broken"))
    assert pending.get(["a"])[0] == 1
    with pytest.raises(ModelError, match="broken"):
        pending.get(["b"])
    with pytest.raises(ModelError, match="broken"):
        pending.wait()


def test_a_tensor_that_is_not_pending_is_an_error_at_once():
    with pytest.raises(SettingsError, match="was not captured"):
        PendingTrace({}, ["a"]).get(["b"])


@pytest.mark.parametrize("more", [{}, {"target": "3 1"}])
def test_a_model_with_nan_weights_is_refused_in_one_line(translator, more):
    broken = copy.copy(translator)
    broken.model = copy.deepcopy(translator.model)
    with torch.no_grad():
        broken.model.get_parameter("decoder.blocks.0.feedforward.outer.weight").fill_(float("nan"))
    client = TestClient(make_app(Library([("broken", broken)])), base_url="http://127.0.0.1")
    response = client.post("/api/trace", json={"text": "three one", **more})
    if more:
        response = client.get(f"/api/trace/{response.json()['id']}")
    assert response.status_code == 400
    assert "NaN" in response.json()["error"]


def test_the_tree_of_a_search_counts_as_memory(translator):
    searched = start_trace(translator, "numbers", {"text": "three one"})
    given = TraceSession(translator.explain("three one", names=(), target="3 1"), searched.about)
    assert searched.explanation.tree is not None
    assert searched.bytes - given.bytes >= 100 * len(searched.explanation.tree.nodes) > 0


def test_a_dropped_trace_stops_its_pass(translator):
    session = start_trace(translator, "numbers", {"text": "three one"})
    traces = TraceCache(10**9)
    traces.add(session, "left")

    def leave(states: torch.Tensor) -> torch.Tensor:
        traces.drop("left")
        return states

    session.edits = {"encoder.states": leave}
    session.run()
    with pytest.raises(StoppedError, match="disconnected"):
        session.wait()
    assert session.values(FIRST).shape[0] == 2
    with pytest.raises(StoppedError):
        session.values("logits")
    with pytest.raises(UnknownTraceError):
        traces.get("left")


def test_muting_heads_stops_when_the_client_disconnects(translator):
    session, connected = start_trace(translator, "numbers", {"text": "three one"}), iter([True, True, False])
    session.run()
    with pytest.raises(StoppedError, match="stopped muting"):
        contributions(session, connected.__next__)
    assert list(connected) == []
    again = translator.explain("three one").sum_log_prob
    assert contributions(session)["log_prob"] == pytest.approx(again, abs=1e-5)


def test_a_disconnected_client_does_not_wait_for_the_model(models):
    library, connected = Library(models), threading.Event()
    connected.set()
    problems = []

    def wait() -> None:
        with pytest.raises(DisconnectedError) as refused, library.using("numbers", connected.is_set):
            pass
        problems.append(refused.value)

    with library.using("numbers"):
        thread = threading.Thread(target=wait)
        thread.start()
        connected.clear()
        thread.join(10)
        assert len(problems) == 1
    with library.using("numbers") as (_, name):
        assert name == "numbers"


@contextmanager
def holding(translator):
    """A server whose passes wait before the decoder; yields a request function and a trace id."""
    slow, go, held = copy.copy(translator), threading.Event(), threading.Event()
    slow.model = copy.deepcopy(translator.model)

    def hold(*_: object) -> None:
        held.set()
        assert go.wait(30)

    def request(path: str, seconds: float = 10, **body: str) -> dict:
        data = json.dumps(body).encode() if body else None
        call = Request(f"{address}api/{path}", data, {"content-type": "application/json"})
        with urlopen(call, timeout=seconds) as response:
            return json.load(response)

    with in_background([("slow", slow)]) as address:
        slow.model.get_submodule("decoder").register_forward_pre_hook(hold)
        trace = request("trace", text="three one", target="3 1")["id"]
        assert held.wait(10)
        try:
            yield request, trace
        finally:
            go.set()


def test_closing_the_page_drops_its_trace(translator):
    with holding(translator) as (request, trace):
        with pytest.raises(TimeoutError):
            request(f"trace/{trace}", 0.3)

        def is_gone() -> bool:
            try:
                return not request(f"trace/{trace}/logits?position=-1")
            except HTTPError as error:
                return error.code == 404

        deadline = time.monotonic() + 10
        while not is_gone() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert is_gone()


def test_closed_pages_do_not_block_others(translator):
    with holding(translator) as (request, trace):

        def leave(_: int) -> None:
            with suppress(TimeoutError, HTTPError):
                request(f"trace/{trace}", 1)

        # More than the server has threads.
        with ThreadPoolExecutor(50) as pages:
            list(pages.map(leave, range(50)))
        assert request("models")["models"][0]["name"] == "slow"


def test_a_server_that_ends_during_startup_is_an_error():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    with pytest.raises(ModelError, match="did not start"):
        _wait_until_ready(threading.Event(), thread)
