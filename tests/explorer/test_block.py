"""The whole block as arithmetic: every sum gives the tensor that the model itself has at that point."""

import pytest
import torch

from clearhead.explorer.block import attention_output, feedforward, readout, units
from clearhead.explorer.trace_session import start_trace
from clearhead.tasks.load import load_built_in

TEXTS = {"numbers": "three one four one", "babbler": "to be"}
BUILT_IN = {
    "en-de": "I closed the windows.",
    "shakespeare": "Once upon",
    "sentences": "Once upon",
    "masked-en": "I closed the <mask>.",
}


@pytest.fixture(scope="module", params=[*TEXTS, *BUILT_IN])
def session(request, translator, language):
    name = request.param
    toys = {"numbers": translator, "babbler": language}
    model = toys[name] if name in toys else load_built_in(name)
    session = start_trace(model, name, {"text": {**TEXTS, **BUILT_IN}[name]})
    session.run()
    return session.wait()


def check_norm(norm: dict) -> None:
    """The norm from its printed parts."""
    x, gain = torch.tensor(norm["input"]), torch.tensor(norm["gain"])
    expected = (x - (norm["mean"] or 0)) / (norm["variance"] + norm["epsilon"]) ** 0.5 * gain
    if norm["bias"] is not None:
        expected = expected + torch.tensor(norm["bias"])
    assert norm["output"] == pytest.approx(expected.tolist(), abs=1e-4, rel=1e-4)


def check_residual(found: dict) -> None:
    total = [a + b for a, b in zip(found["before"], found["added"], strict=True)]
    check_norm(found["norm"])
    after = total if found["norm_position"] == "pre" else found["norm"]["output"]
    assert found["after"] == pytest.approx(after, abs=1e-3, rel=1e-4)


def test_attention_outputs_the_sum_of_weighted_values_and_adds_it_to_the_stream(session):
    for part in session.explanation.anatomy.attentions:
        name, layer = part.name, session.explanation.anatomy.stack(part.stack).layers - 1
        found = attention_output(session, name, layer, 1, 2, dimension=3, output=5)
        product = sum(a * v for a, v in zip(found["weights"], found["values"], strict=True))
        assert product == pytest.approx(found["head_output"], abs=1e-4)
        assert found["heads"][1][3] == found["head_output"]
        joined = [one for head in found["heads"] for one in head]
        through = sum(h * w for h, w in zip(joined, found["row"], strict=True)) + (found["bias"] or 0)
        assert through == pytest.approx(found["product"], abs=1e-3)
        assert found["product"] == pytest.approx(found["added"][5], abs=1e-3)
        assert found["added"] == session.values(f"{part.path(layer)}.added")[2].tolist()
        check_residual(found)


def test_a_unit_is_a_sum_and_the_units_make_what_is_added(session):
    for stack in session.explanation.anatomy.stacks:
        found = feedforward(session, stack.path, stack.layers - 1, 2, unit=4, output=5)
        inside = sum(x * w for x, w in zip(found["input"], found["unit_weight"], strict=True))
        assert inside + (found["unit_bias"] or 0) == pytest.approx(found["unit_input"], abs=1e-3)
        assert found["activations"][2] == pytest.approx(found["hidden"][4], abs=1e-6)
        total = sum(h * w for h, w in zip(found["hidden"], found["row"], strict=True)) + (found["bias"] or 0)
        assert total == pytest.approx(found["product"], abs=1e-3)
        assert found["product"] == pytest.approx(found["added"][5], abs=1e-3, rel=1e-4)
        check_residual(found)
        assert units(session, stack.path, stack.layers - 1)[2].tolist() == found["hidden"]
        strongest = feedforward(session, stack.path, stack.layers - 1, 2, unit=None, output=5)
        assert strongest["unit"] == found["strongest"][0]["unit"]
        for one in found["strongest"]:
            assert one["activation"] == pytest.approx(found["hidden"][one["unit"]])
            values = [token["activation"] for token in one["tokens"]]
            assert values == sorted(values, reverse=True)
            assert all(value > 0 for value in values)


def test_the_logit_is_the_last_state_times_a_row_of_the_readout(session):
    if "readout" not in session.manifest()["parts"]:
        return
    found = readout(session, 1, None)
    logits = session.values("logits")[1]
    following = session.explanation.target[1].next
    token = int(logits.argmax()) if following is None else following
    assert found["token"]["id"] == token
    assert found["logit"] == float(logits[token])
    assert found["product"] == pytest.approx(found["logit"], abs=1e-3)
    assert found["probability"] == pytest.approx(float(logits.softmax(-1)[token]), rel=1e-4)
    exponential = torch.tensor(found["logit"] - found["largest"]).exp() / found["sum"]
    assert float(exponential) == pytest.approx(found["probability"], rel=1e-4)
    candidates = [one["id"] for one in found["candidates"]]
    assert token in candidates
    assert found["logits"] == session.values("logits")[:, candidates].tolist()
    if found["norm"]:
        check_norm(found["norm"])
        assert found["norm"]["output"] == pytest.approx(found["state"], abs=1e-4)


@pytest.mark.parametrize(
    ("path", "query", "message"),
    [
        ("attention_output", {"attention": "none", "layer": 0, "head": 0, "position": 0}, "is not one of"),
        (
            "attention_output",
            {"attention": "encoder", "layer": 9, "head": 0, "position": 0},
            "layer: 9 is not",
        ),
        (
            "feedforward",
            {"stack": "encoder", "layer": 0, "position": 0, "unit": -1},
            "unit: -1 is not from 0",
        ),
        ("readout", {"position": 0, "token": 10**6}, "token: 1000000 is not from 0"),
    ],
)
def test_indices_out_of_range_are_errors(client, make_trace, path, query, message):
    key = make_trace()["id"]
    response = client.get(f"/api/trace/{key}/{path}", params=query)
    assert response.status_code == 400
    assert message in response.json()["error"]
