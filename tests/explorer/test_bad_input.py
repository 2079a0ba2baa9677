"""Bad requests get an error of one line, and nothing is computed."""

import pytest

ROW = {"kind": "row", "attention": "decoder.blocks.0.cross_attention", "head": 0, "query": 0}
MUTE = {"kind": "mute", "attention": "decoder.blocks.0.cross_attention", "heads": [0]}


@pytest.mark.parametrize(
    ("body", "status", "field", "message"),
    [
        ({"text": "one " * 10000}, 400, "text", "10000 tokens, but the model takes at most 15; shorten it"),
        ({"text": " "}, 400, "text", "blank"),
        ({}, 422, "text", "is missing"),
        ({"text": 7}, 422, "text", "7 is not a string"),
        ({"text": "one", "beam": 0}, 422, "beam", "0 should be greater than or equal to 1"),
        ({"text": "one", "beams": 2}, 422, "beams", "unknown setting; docs/trace.md lists the fields"),
        ({"text": "one", "model": "none"}, 400, "model", "is not one of numbers, babbler"),
        ({"text": "one", "to": "fr"}, 400, None, "fr"),
    ],
)
def test_a_bad_request_is_refused_by_field(client, body, status, field, message):
    response = client.post("/api/trace", json=body)
    data = response.json()
    assert (response.status_code, data["field"]) == (status, field)
    assert message in data["error"]
    assert "\n" not in data["error"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({**ROW, "weights": ["x"]}, "interventions.0.weights.0: 'x' is not a number"),
        ({**ROW, "weights": [-1]}, "interventions.0.weights.0: -1 should be greater than or equal to 0"),
        (ROW, "interventions.0.weights: is missing"),
        ({**MUTE, "heads": 0}, "interventions.0.heads: 0 is not a list (put it in brackets)"),
        ({**MUTE, "heads": [0.5]}, "interventions.0.heads.0: 0.5 is not an integer"),
        ({**MUTE, "hed": 0}, "interventions.0.hed: unknown setting; docs/trace.md lists the fields"),
        (
            {"kind": "burn"},
            "interventions.0: 'burn' is not one of mute, keep, row, embedding, position, hide",
        ),
        ({}, "interventions.0: kind is missing"),
    ],
)
def test_a_bad_intervention_is_refused_by_path_and_value(client, edit, message):
    response = client.post("/api/trace", json={"text": "one", "interventions": [edit]})
    assert response.status_code == 422
    assert response.json() == {"error": message, "field": message.partition(":")[0]}


def test_a_long_value_is_shortened_in_the_error(client):
    data = client.post("/api/trace", json={"text": "a" * 200_001}).json()
    assert data["error"] == f"text: '{'a' * 79}… should have at most 200000 characters"


def test_numbers_that_are_not_finite_are_refused(client):
    for value in ("NaN", "Infinity", "1e999"):
        body = f'{{"text": "one", "temperature": {value}}}'
        response = client.post("/api/trace", content=body, headers={"content-type": "application/json"})
        assert response.status_code == 422
        assert response.json()["field"] == "temperature"


@pytest.mark.parametrize(
    "text", ["👋🏽 one", "שלום one", "一二三", "<script>alert(1)</script>", "one\u0000two", "\u202eone"]
)
def test_any_text_is_accepted_as_text(client, make_trace, text):
    manifest = make_trace(text)
    assert manifest["text"] == text
    assert client.get(f"/api/trace/{manifest['id']}/summaries").status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("t/decoder.blocks.0.cross_attention.wights", 404, "tensor"),
        ("t/decoder.blocks.9.cross_attention.weights", 404, "tensor"),
        ("t/encoder.blocks.*.attention.weights?layer=9", 400, "layer"),
        ("t/encoder.blocks.*.attention.weights?head=9", 400, "heads"),
        ("t/encoder.blocks.*.attention.weights?head=-1", 400, "heads"),
        ("t/encoder.blocks.*.attention.weights?head=x", 422, "head"),
        ("t/encoder.blocks.*.attention.weights?dtype=f64", 400, "dtype"),
        ("t/encoder.blocks.*.attention.weights?pool=0", 400, "pool"),
        ("t/encoder.states?pool=4", 400, "pool"),
        ("t/encoder.states?dtype=u8s", 400, "dtype"),
        ("logits?position=99", 400, "position"),
        ("logits?position=0&temperature=-1", 400, "temperature"),
        ("logits?position=0&top_p=0", 400, "top_p"),
        ("logits?position=0&top=100000", 400, "top"),
        ("projection?attention=x&layer=0&head=0&position=0", 400, "attention"),
        ("projection?attention=cross&layer=5&head=0&position=0", 400, "layer"),
        ("projection?attention=cross&layer=0&head=0&position=0&dimension=99", 400, "dimension"),
    ],
)
def test_a_bad_query_about_a_trace_is_refused_by_field(client, make_trace, path, status, field):
    response = client.get(f"/api/trace/{make_trace()['id']}/{path}")
    assert (response.status_code, response.json()["field"]) == (status, field), response.text


def test_an_oversized_body_is_refused(client):
    response = client.post("/api/trace", content=(b"x" * 100_000 for _ in range(100)))
    assert response.status_code == 413
    assert "4,000,000 bytes" in response.json()["error"]


def test_a_body_that_is_not_json_is_refused(client):
    cases = {
        (b"{", "application/json"): "the request is not JSON (Expecting property name",
        (b'{"text": "one"}', "text/plain"): "the request is not a JSON object with content-type",
        (b"[1]", "application/json"): "the request is not a JSON object with content-type",
    }
    for (body, kind), message in cases.items():
        response = client.post("/api/trace", content=body, headers={"content-type": kind})
        assert (response.status_code, response.json()["field"]) == (422, None)
        assert response.json()["error"].startswith(message)


def test_requests_to_another_host_are_refused(client):
    assert client.get("/api/models", headers={"host": "evil.example"}).status_code == 400


def test_files_beside_the_page_are_not_served(client):
    paths = (
        "/../app.py",
        "/%2e%2e/app.py",
        "/assets/../../app.py",
        "/..%2fapp.py",
        "/%00",
        "/assets",
        f"/{'a' * 5000}",
    )
    for path in paths:
        response = client.get(path)
        assert (response.status_code, set(response.json())) == (404, {"error", "field"})


def test_every_response_has_security_headers(client, monkeypatch):
    monkeypatch.setattr("clearhead.explorer.app.tokenize", lambda *_: 1 / 0)
    responses = [client.get(path) for path in ("/api/models", "/nothing", "/api/trace/none")]
    responses.append(client.post("/api/trace", content=b"x" * 5_000_000))
    responses.append(client.get("/api/tokens", params={"text": "one"}))
    assert [response.status_code for response in responses] == [200, 404, 404, 413, 500]
    assert "internal error (ZeroDivisionError)" in responses[-1].json()["error"]
    for response in responses:
        assert response.headers["content-security-policy"].startswith("default-src 'self'")
        assert response.headers["x-content-type-options"] == "nosniff"
