"""What a page or a stranger sends wrongly is answered with one line, and nothing is computed."""

import pytest

ROW = {"kind": "row", "attention": "decoder.blocks.0.cross_attention", "head": 0, "query": 0}
MUTE = {"kind": "mute", "attention": "decoder.blocks.0.cross_attention", "heads": [0]}


@pytest.mark.parametrize(
    ("body", "status", "field", "said"),
    [
        ({"text": "one " * 10000}, 400, "text", "10000 tokens, and the model takes 15: shorten it"),
        ({"text": " "}, 400, None, "blank"),
        ({}, 422, "text", "is missing"),
        ({"text": 7}, 422, "text", "7 is not a string"),
        ({"text": "one", "beam": 0}, 422, "beam", "0 should be greater than or equal to 1"),
        ({"text": "one", "beams": 2}, 422, "beams", "unknown setting; docs/trace.md has all"),
        ({"text": "one", "model": "none"}, 400, "model", "is not one of numbers, babbler"),
        ({"text": "one", "to": "fr"}, 400, None, "fr"),
    ],
)
def test_a_wrong_request_is_refused_by_its_field(client, body, status, field, said):
    answer = client.post("/api/trace", json=body)
    told = answer.json()
    assert (answer.status_code, told["field"]) == (status, field)
    assert said in told["error"]
    assert "\n" not in told["error"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({**ROW, "weights": ["x"]}, "interventions.0.weights.0: 'x' is not a number"),
        ({**ROW, "weights": [-1]}, "interventions.0.weights.0: -1 should be greater than or equal to 0"),
        (ROW, "interventions.0.weights: is missing"),
        ({**MUTE, "heads": 0}, "interventions.0.heads: 0 should be a valid list"),
        ({**MUTE, "heads": [0.5]}, "interventions.0.heads.0: 0.5 is not an integer"),
        ({**MUTE, "hed": 0}, "interventions.0.hed: unknown setting; docs/trace.md has all that there are"),
        ({"kind": "burn"}, "interventions.0: 'burn' is not one of mute, keep, row, embedding, position"),
        ({}, "interventions.0: kind is missing"),
    ],
)
def test_a_wrong_edit_is_named_by_its_place_and_its_value(client, edit, said):
    answer = client.post("/api/trace", json={"text": "one", "interventions": [edit]})
    assert answer.status_code == 422
    assert answer.json() == {"error": said, "field": said.partition(":")[0]}


def test_of_a_value_without_end_only_the_beginning_is_shown(client):
    told = client.post("/api/trace", json={"text": "a" * 200_001}).json()
    assert told["error"] == f"text: '{'a' * 79}… should have at most 200000 characters"


def test_what_is_no_number_is_refused(client):
    for value in ("NaN", "Infinity", "1e999"):
        body = f'{{"text": "one", "temperature": {value}}}'
        answer = client.post("/api/trace", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert answer.json()["field"] == "temperature"


@pytest.mark.parametrize(
    "text", ["👋🏽 one", "שלום one", "一二三", "<script>alert(1)</script>", "one\u0000two", "\u202eone"]
)
def test_any_text_is_only_text(client, asked, text):
    manifest = asked(text)
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
        ("logits?place=99", 400, "place"),
        ("logits?place=0&temperature=-1", 400, "temperature"),
        ("logits?place=0&top_p=0", 400, "top_p"),
        ("logits?place=0&top=100000", 400, "top"),
        ("projection?attention=x&layer=0&head=0&place=0", 400, "attention"),
        ("projection?attention=cross&layer=5&head=0&place=0", 400, "layer"),
        ("projection?attention=cross&layer=0&head=0&place=0&dimension=99", 400, "dimension"),
    ],
)
def test_a_wrong_question_about_a_trace_is_refused_by_its_field(client, asked, path, status, field):
    answer = client.get(f"/api/trace/{asked()['id']}/{path}")
    assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text


def test_a_body_without_end_is_refused(client):
    answer = client.post("/api/trace", content=(b"x" * 100_000 for _ in range(100)))
    assert answer.status_code == 413
    assert "4,000,000 bytes" in answer.json()["error"]


def test_what_is_not_json_is_refused(client):
    sent = {
        (b"{", "application/json"): "the request is not JSON (Expecting property name",
        (b'{"text": "one"}', "text/plain"): "the request is no JSON object with content-type",
        (b"[1]", "application/json"): "the request is no JSON object with content-type",
    }
    for (body, kind), said in sent.items():
        answer = client.post("/api/trace", content=body, headers={"content-type": kind})
        assert (answer.status_code, answer.json()["field"]) == (422, None)
        assert answer.json()["error"].startswith(said)


def test_a_foreign_host_is_not_answered(client):
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
        answer = client.get(path)
        assert (answer.status_code, set(answer.json())) == (404, {"error", "field"})


def test_every_answer_keeps_the_page_to_itself(client, monkeypatch):
    monkeypatch.setattr("clearhead.explorer.app.cut_text", lambda *_: 1 / 0)
    answers = [client.get(path) for path in ("/api/models", "/nothing", "/api/trace/none")]
    answers.append(client.post("/api/trace", content=b"x" * 5_000_000))
    answers.append(client.get("/api/tokens", params={"text": "one"}))
    assert [answer.status_code for answer in answers] == [200, 404, 404, 413, 500]
    assert "a bug (ZeroDivisionError)" in answers[-1].json()["error"]
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"
