"""A trace over HTTP has the numbers of the explanation in Python."""

from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.explorer.library import Library, TraceCache
from clearhead.explorer.trace_session import start_trace

TYPES = {"f32": "<f4", "f16": "<f2", "u8s": "u1"}


def array(response) -> np.ndarray:
    assert response.status_code == 200, response.text
    shape = [int(side) for side in response.headers["x-shape"].split(",")]
    return np.frombuffer(response.content, TYPES[response.headers["x-dtype"]]).reshape(shape)


@pytest.mark.parametrize("model", ["numbers", "babbler"])
def test_every_tensor_of_the_manifest_equals_that_of_the_explanation(client, make_trace, models, model):
    text = "three one four one" if model == "numbers" else "to be or"
    manifest = make_trace(text, model=model)
    explanation = dict(models)[model].explain(text)
    names = [entry["name"] for entry in manifest["tensors"]]
    assert len(names) == len(set(names)) > 10
    for entry in manifest["tensors"]:
        sent = array(client.get(f"/api/trace/{manifest['id']}/t/{entry['name']}"))
        assert list(sent.shape) == entry["shape"]
        layers = range(entry["shape"][0]) if "*" in entry["name"] else [None]
        kept = [explanation[entry["name"].replace("*", str(layer))] for layer in layers]
        whole = torch.stack(kept) if "*" in entry["name"] else kept[0]
        np.testing.assert_array_equal(sent, whole.numpy())


def test_a_slice_is_a_slice_of_the_whole(client, make_trace):
    manifest = make_trace()
    path = f"/api/trace/{manifest['id']}/t/decoder.blocks.*.cross_attention.weights"
    whole = array(client.get(path))
    np.testing.assert_array_equal(
        array(client.get(path, params={"layer": 0, "head": 1, "query": 2})), whole[0, 1, 2]
    )
    one = path.replace("*", "0")
    np.testing.assert_array_equal(array(client.get(one, params={"head": 1})), whole[0, 1])
    np.testing.assert_array_equal(array(client.get(path, params={"query": 2})), whole[:, :, 2])


def test_f16_and_u8s_are_the_rounded_numbers(client, make_trace):
    path = f"/api/trace/{make_trace()['id']}/t/encoder.blocks.*.attention.weights"
    whole = array(client.get(path))
    np.testing.assert_array_equal(array(client.get(path, params={"dtype": "f16"})), whole.astype("f2"))
    roots = array(client.get(path, params={"dtype": "u8s"}))
    np.testing.assert_array_equal(roots, np.round(255 * np.sqrt(whole)).astype("u1"))


def test_a_pooled_cell_is_the_maximum_of_what_it_covers(client, make_trace):
    path = f"/api/trace/{make_trace()['id']}/t/encoder.blocks.*.attention.weights"
    whole = array(client.get(path))[0, 0]
    small = array(client.get(path, params={"layer": 0, "head": 0, "pool": 2}))
    length = len(whole)
    for row in range(2):
        for column in range(2):
            rows, columns = (slice(at * length // 2, -(-(at + 1) * length // 2)) for at in (row, column))
            assert small[row, column] == whole[rows, columns].max()


def test_masked_scores_are_minus_infinity_where_the_map_says_so(client, make_trace):
    manifest = make_trace()
    for one in manifest["model"]["attentions"]:
        masked = array(client.get(f"/api/trace/{manifest['id']}/t/{one['path']}.masked"))
        queries, keys = np.indices(masked.shape[-2:])
        hidden = (keys > queries) if one["causal"] else np.zeros_like(keys, bool)
        assert (np.isneginf(masked) == hidden).all()


def test_the_output_is_the_translation(make_trace, translator):
    manifest = make_trace()
    found = translator.translate("three one four one")
    assert manifest["output"]["text"] == found.text == "3 1 4 1"
    assert manifest["output"]["log_prob"] == pytest.approx(found.sum_log_prob, abs=1e-4)
    said = [token["next"] for token in manifest["sides"]["target"]]
    assert [token["id"] for token in manifest["output"]["tokens"]] == said
    assert manifest["difference"] < 1e-5


def test_a_gpt_reads_its_prompt_and_its_continuation(make_trace, language):
    manifest = make_trace("to be", model="babbler", tokens=4)
    found = language.generate("to be", tokens=4, temperature=0)
    assert manifest["output"]["text"] == found.text
    written = [token["id"] for token in manifest["sides"]["text"] if token["generated"]]
    assert len(written) == 4
    assert [token["id"] for token in manifest["output"]["tokens"]][:4] == written


def test_the_input_times_a_row_of_the_matrix_is_the_projection(make_trace, get_json):
    manifest = make_trace()
    for one in manifest["model"]["attentions"]:
        for part in ("queries", "keys", "values"):
            explanation = get_json(
                f"trace/{manifest['id']}/projection",
                attention=one["name"], layer=0, head=1, position=1, part=part, dimension=3,
            )  # fmt: skip
            product = np.dot(explanation["input"], explanation["weight"]) + explanation["bias"]
            assert product == pytest.approx(explanation["output"][3], abs=1e-4)
            assert explanation["product"] == pytest.approx(explanation["output"][3], abs=1e-4)


def test_large_traces_compute_some_tensors_on_request(make_trace, client, monkeypatch, translator):
    monkeypatch.setattr("clearhead.explorer.trace_session.KEPT_BYTES", 1000)
    small = make_trace()
    explanation = translator.explain("three one four one")
    name = "encoder.blocks.0.attention.scores"
    again = array(client.get(f"/api/trace/{small['id']}/t/{name}"))
    np.testing.assert_array_equal(again, explanation[name].numpy())
    monkeypatch.undo()
    assert small["bytes"] < make_trace()["bytes"]


def test_the_oldest_traces_are_dropped_when_memory_is_full(models):
    from fastapi.testclient import TestClient

    from clearhead.explorer.app import make_app
    from clearhead.explorer.library import Library

    client = TestClient(make_app(Library(models), cache_bytes=1), base_url="http://127.0.0.1")
    first, second = (
        client.post("/api/trace", json={"text": text}).json()["id"] for text in ("one two", "two one")
    )
    assert client.get(f"/api/trace/{second}").status_code == 200
    gone = client.get(f"/api/trace/{first}")
    assert (gone.status_code, gone.json()["gone"]) == (404, True)


def test_tensors_computed_on_request_count_as_memory(translator, monkeypatch):
    monkeypatch.setattr("clearhead.explorer.trace_session.KEPT_BYTES", 1000)
    first, second = (start_trace(translator, "numbers", {"text": text}) for text in ("one two", "two one"))
    for one in (first, second):
        one.run()
    traces = TraceCache(first.bytes + second.bytes)
    traces.add(first, "first")
    traces.add(second, "second")
    assert traces.get("first") is first
    first.fetch("encoder.blocks.*.attention.scores")
    assert traces.bytes == first.bytes + second.bytes > traces.max_bytes
    assert traces.get("first") is first
    assert len(traces) == 1


def test_the_tree_holds_the_path_of_the_output_and_reasons_for_dropping_others(make_trace, get_json):
    manifest = make_trace(beam=3)
    tree = get_json(f"trace/{manifest['id']}/beam")
    nodes = tree["nodes"]
    best = [node for node in nodes if node["best"]]
    assert [node["id"] for node in best] == [token["id"] for token in manifest["output"]["tokens"]]
    assert best[-1]["score"] == pytest.approx(manifest["output"]["score"], abs=1e-5)
    for node in nodes:
        before = 0 if node["parent"] is None else nodes[node["parent"]]["sum_log_prob"]
        assert node["sum_log_prob"] == pytest.approx(before + node["log_prob"], abs=1e-4)
        assert (node["reason"] is not None) >= (node["state"] == "dropped")
    assert tree["beam"] == 3


def test_forced_tokens_start_the_output(make_trace, get_json, translator):
    first = get_json(f"trace/{make_trace(beam=3)['id']}/beam")["nodes"][1]["id"]
    forced = make_trace(beam=3, forced=[first])
    assert forced["output"]["tokens"][0]["id"] == first
    text = translator.tokenizer.decode([first])
    assert make_trace(beam=3, prefix=text)["output"]["text"] == forced["output"]["text"]


def test_a_given_target_has_no_tree(client, make_trace):
    manifest = make_trace(target="3 1 4 1")
    assert "beam" not in manifest["parts"]
    response = client.get(f"/api/trace/{manifest['id']}/beam")
    assert (response.status_code, response.json()["field"]) == (400, "beam")


def test_a_built_in_name_means_the_packaged_model_even_if_a_folder_has_that_name(
    models, built_in_model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("en-fr").mkdir()
    Path("en-fr/config.toml").touch()
    with Library(models).using("en-fr") as (model, name):
        assert (str(model.translate("three one four")), name) == ("c a d", "en-fr")
