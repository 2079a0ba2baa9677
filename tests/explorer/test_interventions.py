"""Interventions over HTTP edit the output, and the Python shown beside it does the same."""

import contextlib
import io

import numpy as np
import pytest

CROSS = "decoder.blocks.0.cross_attention"
EDITS = [
    {"kind": "mute", "attention": CROSS, "heads": [0, 1]},
    {"kind": "keep", "attention": "encoder.blocks.*.attention", "heads": [1]},
    {"kind": "row", "attention": CROSS, "head": 1, "query": 1, "weights": [0, 0, 0, 1, 1]},
    {"kind": "embedding", "side": "source", "position": 1, "token": "nine"},
    {"kind": "position", "side": "source", "position": 0, "to": 3},
]


def run(code: str) -> str:
    """The output of some code."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, {})
    return output.getvalue().removesuffix("\n")


@pytest.fixture
def by_folder(number_model, babbler):
    """A server with models named by folder, as `clearhead explore` has them."""
    from fastapi.testclient import TestClient

    from clearhead.explorer.app import make_app
    from clearhead.explorer.library import Library
    from clearhead.tasks.load import load

    models = [(str(folder), load(folder)) for folder in (number_model, babbler)]
    return TestClient(make_app(Library(models)), base_url="http://127.0.0.1"), str(babbler)


@pytest.mark.parametrize("edits", [[], *([one] for one in EDITS), EDITS])
def test_the_python_beside_a_trace_gives_its_output(by_folder, edits):
    client, _ = by_folder
    body = {"text": "three one four one", "interventions": edits}
    manifest = client.post("/api/trace", json=body).json()
    assert run(manifest["python"]) == manifest["output"]["text"]


def test_the_python_beside_sampled_text_gives_its_output(by_folder):
    client, name = by_folder
    mute = {"kind": "mute", "attention": "decoder.blocks.0.attention", "heads": [0]}
    body = {
        "model": name,
        "text": "to be",
        "tokens": 6,
        "temperature": 1.5,
        "seed": 4,
        "interventions": [mute],
    }
    manifest = client.post("/api/trace", json=body).json()
    assert run(manifest["python"]) == manifest["output"]["text"]


def test_muting_all_heads_changes_the_output_and_undo_restores_it(make_trace):
    plain = make_trace()
    muted = make_trace(interventions=EDITS[:1])
    assert muted["output"]["text"] != plain["output"]["text"]
    assert muted["before"]["text"] == plain["output"]["text"]
    assert muted["before"]["log_prob"] == pytest.approx(plain["output"]["log_prob"], abs=1e-4)
    again = make_trace()
    assert again["output"] == plain["output"]
    assert again["before"] is None


def test_an_edited_row_is_the_row_in_the_trace(client, make_trace):
    manifest = make_trace(interventions=EDITS[2:3], target="3 1 4 1")
    response = client.get(f"/api/trace/{manifest['id']}/t/{CROSS}.weights", params={"head": 1, "query": 1})
    np.testing.assert_allclose(np.frombuffer(response.content, "<f4"), [0, 0, 0, 0.5, 0.5])


def test_tensors_computed_on_request_include_the_edits(client, make_trace, monkeypatch):
    path = "t/decoder.blocks.0.cross_attention.head_output"
    whole = client.get(f"/api/trace/{make_trace(interventions=EDITS)['id']}/{path}").content
    monkeypatch.setattr("clearhead.explorer.trace_session.KEPT_BYTES", 1000)
    assert client.get(f"/api/trace/{make_trace(interventions=EDITS)['id']}/{path}").content == whole
    assert client.get(f"/api/trace/{make_trace()['id']}/{path}").content != whole


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({**EDITS[0], "attention": "decoder.blocks.7.attention"}, "there is no attention"),
        ({**EDITS[0], "heads": [2]}, "no head 2"),
        ({**EDITS[2], "weights": [0, 0, 0, 0, 0]}, "all weights are 0"),
        ({**EDITS[2], "weights": [1] * 40}, "cannot attend to key 5"),
        ({**EDITS[3], "token": "nothing like it"}, "is not one token"),
        ({**EDITS[3], "side": "text"}, "has no side text"),
        ({**EDITS[3], "token": None, "id": 10**6}, "no token"),
        ({**EDITS[4], "to": 99}, "beyond the model's last"),
    ],
)
def test_an_impossible_edit_is_refused(client, edit, message):
    response = client.post("/api/trace", json={"text": "three one four one", "interventions": [edit]})
    assert response.status_code == 400
    assert message in response.json()["error"]
