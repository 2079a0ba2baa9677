"""Recurrent translators in the explorer, with attention and without: gates are tensors like all others."""

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.explorer.standalone import standalone_page
from clearhead.models import build, read_config
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import SearchConfig
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TEXT = "the dog runs"
WIDTH = 12


def recurrent_translator(**settings: object) -> TranslationModel:
    """An untrained translator with two bidirectional layers."""
    torch.manual_seed(0)
    words = Tokenizer.train([f"{TEXT} through a garden"], TokenizerConfig(kind="word", vocabulary=40))
    config = read_config({"kind": "seq2seq", "width": WIDTH, "layers": 2, "max_length": 24, **settings})
    return TranslationModel(build(config, words), words, [Direction("en", "de")], SearchConfig(beam=2))


@pytest.fixture(scope="module")
def recurrent() -> dict[str, TranslationModel]:
    return {
        "attends": recurrent_translator(cell="lstm"),
        "fixed": recurrent_translator(cell="gru", attend="none", bidirectional=False),
    }


@pytest.fixture(scope="module")
def recurrent_client(recurrent) -> TestClient:
    return TestClient(make_app(Library(list(recurrent.items()))), base_url="http://127.0.0.1")


@pytest.fixture(scope="module", params=["attends", "fixed"])
def manifest(recurrent_client, request) -> dict:
    body = {"model": request.param, "text": TEXT, "target": "a garden"}
    response = recurrent_client.post("/api/trace", json=body)
    assert response.status_code == 200, response.text
    return recurrent_client.get(f"/api/trace/{response.json()['id']}").json()


def test_the_map_names_its_layers(recurrent_client):
    about = recurrent_client.get("/api/model", params={"model": "attends"}).json()
    assert about["recurrences"] == [
        {"name": "encoder", "side": "source", "layers": 2, "cell": "lstm", "directions": 2},
        {"name": "decoder", "side": "target", "layers": 2, "cell": "lstm", "directions": 1},
    ]
    assert (about["stacks"], about["width"], about["output_side"]) == ([], WIDTH, "target")
    assert [one["name"] for one in about["attentions"]] == ["cross"]
    assert recurrent_client.get("/api/model", params={"model": "fixed"}).json()["attentions"] == []


def test_every_gate_has_the_numbers_of_python(recurrent_client, recurrent, manifest):
    explanation = recurrent[manifest["model"]["name"]].explain(TEXT, target="a garden")
    entries = [entry for entry in manifest["tensors"] if "recurrence" in entry]
    gates = {"lstm": 6, "gru": 4}[manifest["model"]["recurrences"][0]["cell"]]
    assert len(entries) == 2 * gates
    for entry in entries:
        assert entry["axes"] == ["layers", "directions", "positions", "width"]
        sent = recurrent_client.get(f"/api/trace/{manifest['id']}/t/{entry['name']}", params={"layer": 1})
        expected = explanation[entry["name"].replace("*", "1")].numpy()
        assert sent.headers["x-shape"] == ",".join(map(str, entry["shape"][1:]))
        np.testing.assert_array_equal(np.frombuffer(sent.content, "<f4"), expected.ravel())


def test_measures_are_those_that_apply(recurrent_client, manifest):
    attends = manifest["model"]["name"] == "attends"
    assert manifest["difference"] < 1e-5
    assert ("contributions" in manifest["parts"]) == attends
    assert not {"lens", "projection"} & set(manifest["parts"])
    summaries = recurrent_client.get(f"/api/trace/{manifest['id']}/summaries").json()
    assert (summaries["residual"], summaries["rollout"]) == ({}, {})
    assert (summaries["aligners"] is not None) == attends
    if attends:
        found = recurrent_client.get(f"/api/trace/{manifest['id']}/contributions").json()
        assert [one["attention"] for one in found["heads"]] == ["cross"]


def test_steps_equal_greedy_search(recurrent_client, recurrent):
    generated: list[int] = []
    while len(generated) < 20:
        body = {"model": "attends", "text": TEXT, "generated": generated}
        step = recurrent_client.post("/api/step", json=body).json()
        generated.append(step["next"]["id"])
        assert step["cache"] is None
        if step["ended"]:
            break
    assert step["text"]
    assert recurrent["attends"].translate(TEXT, beam=1).text.startswith(step["text"])


@pytest.mark.parametrize("model", ["attends", "fixed"])
def test_a_word_is_compared_across_texts_layer_by_layer(recurrent_client, recurrent, model):
    body = {"model": model, "word": "dog", "texts": ["the dog runs", "a dog"]}
    data = recurrent_client.post("/api/contexts", json=body).json()
    explanations = [recurrent[model].explain(text, target="") for text in body["texts"]]
    states = [one["encoder.layers.1.hidden"][:, 1].flatten() for one in explanations]
    assert data["similarity"][0][0][1] == pytest.approx(1)
    expected = float(torch.cosine_similarity(*states, dim=0))
    assert data["similarity"][2][0][1] == pytest.approx(expected, abs=1e-5)


def test_it_can_be_saved_as_a_file(recurrent):
    assert "encoder.layers.*.forget_gate" in standalone_page(recurrent["attends"].explain(TEXT))
