"""Changing a model over HTTP: the output changes, and the Python that is shown beside it does the same."""

import contextlib
import io

import numpy as np
import pytest

CROSS = "decoder.blocks.0.cross_attention"
CHANGES = [
    {"kind": "mute", "attention": CROSS, "heads": [0, 1]},
    {"kind": "keep", "attention": "encoder.blocks.*.attention", "heads": [1]},
    {"kind": "row", "attention": CROSS, "head": 1, "query": 1, "weights": [0, 0, 0, 1, 1]},
    {"kind": "embedding", "side": "source", "place": 1, "token": "nine"},
    {"kind": "position", "side": "source", "place": 0, "to": 3},
]


def run(code: str) -> str:
    """What some code prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(code, {})
    return said.getvalue().removesuffix("\n")


@pytest.fixture
def by_folder(number_model, babbler):
    """A server that knows its models by their folders, as `clearhead explore` does."""
    from fastapi.testclient import TestClient

    from clearhead.explorer.app import make_app
    from clearhead.explorer.library import Library
    from clearhead.tasks.load import load

    models = [(str(folder), load(folder)) for folder in (number_model, babbler)]
    return TestClient(make_app(Library(models)), base_url="http://127.0.0.1"), str(babbler)


@pytest.mark.parametrize("changes", [[], *([one] for one in CHANGES), CHANGES])
def test_the_python_beside_a_trace_gives_its_output(by_folder, changes):
    client, _ = by_folder
    asked = {"text": "three one four one", "interventions": changes}
    manifest = client.post("/api/trace", json=asked).json()
    assert run(manifest["python"]) == manifest["output"]["text"]


def test_the_python_beside_a_drawn_text_gives_its_output(by_folder):
    client, name = by_folder
    mute = {"kind": "mute", "attention": "decoder.blocks.0.attention", "heads": [0]}
    asked = {
        "model": name,
        "text": "to be",
        "tokens": 6,
        "temperature": 1.5,
        "seed": 4,
        "interventions": [mute],
    }
    manifest = client.post("/api/trace", json=asked).json()
    assert run(manifest["python"]) == manifest["output"]["text"]


def test_muting_all_heads_changes_the_output_and_undo_restores_it(asked):
    plain = asked()
    muted = asked(interventions=CHANGES[:1])
    assert muted["output"]["text"] != plain["output"]["text"]
    assert muted["before"]["text"] == plain["output"]["text"]
    assert muted["before"]["log_probability"] == pytest.approx(plain["output"]["log_probability"], abs=1e-4)
    again = asked()
    assert again["output"] == plain["output"]
    assert again["before"] is None


def test_an_edited_row_is_the_row_that_is_seen(client, asked):
    manifest = asked(interventions=CHANGES[2:3], target="3 1 4 1")
    answer = client.get(f"/api/trace/{manifest['id']}/t/{CROSS}.weights", params={"head": 1, "query": 1})
    np.testing.assert_allclose(np.frombuffer(answer.content, "<f4"), [0, 0, 0, 0.5, 0.5])


def test_what_is_computed_again_has_the_changes_in_it(client, asked, monkeypatch):
    place = "t/decoder.blocks.0.cross_attention.head_output"
    whole = client.get(f"/api/trace/{asked(interventions=CHANGES)['id']}/{place}").content
    monkeypatch.setattr("clearhead.explorer.run.KEPT_BYTES", 1000)
    assert client.get(f"/api/trace/{asked(interventions=CHANGES)['id']}/{place}").content == whole
    assert client.get(f"/api/trace/{asked()['id']}/{place}").content != whole


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({**CHANGES[0], "attention": "decoder.blocks.7.attention"}, "there is no attention"),
        ({**CHANGES[0], "heads": [2]}, "no head 2"),
        ({**CHANGES[2], "weights": [0, 0, 0, 0, 0]}, "all weights are 0"),
        ({**CHANGES[2], "weights": [1] * 40}, "cannot attend to key"),
        ({**CHANGES[3], "token": "nothing like it"}, "is not one token"),
        ({**CHANGES[3], "side": "text"}, "has no side text"),
        ({**CHANGES[3], "token": None, "id": 10**6}, "no token"),
        ({**CHANGES[4], "to": 99}, "beyond the model's last"),
    ],
)
def test_a_change_that_cannot_be_is_refused(client, change, said):
    answer = client.post("/api/trace", json={"text": "three one four one", "interventions": [change]})
    assert answer.status_code == 400
    assert said in answer.json()["error"]
