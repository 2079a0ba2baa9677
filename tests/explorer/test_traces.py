"""A trace over HTTP: its numbers are those of the explanation in Python."""

from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.explorer.library import Library
from clearhead.explorer.run import tell
from clearhead.explorer.traces import Traces

TYPES = {"f32": "<f4", "f16": "<f2", "u8s": "u1"}


def array(answer) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    shape = [int(side) for side in answer.headers["x-shape"].split(",")]
    return np.frombuffer(answer.content, TYPES[answer.headers["x-dtype"]]).reshape(shape)


@pytest.mark.parametrize("model", ["numbers", "babbler"])
def test_every_tensor_of_the_manifest_equals_that_of_the_explanation(client, asked, models, model):
    text = "three one four one" if model == "numbers" else "to be or"
    manifest = asked(text, model=model)
    told = dict(models)[model].explain(text)
    names = [entry["name"] for entry in manifest["tensors"]]
    assert len(names) == len(set(names)) > 10
    for entry in manifest["tensors"]:
        sent = array(client.get(f"/api/trace/{manifest['id']}/t/{entry['name']}"))
        assert list(sent.shape) == entry["shape"]
        layers = range(entry["shape"][0]) if "*" in entry["name"] else [None]
        kept = [told[entry["name"].replace("*", str(layer))] for layer in layers]
        whole = torch.stack(kept) if "*" in entry["name"] else kept[0]
        np.testing.assert_array_equal(sent, whole.numpy())


def test_a_slice_is_a_slice_of_the_whole(client, asked):
    manifest = asked()
    place = f"/api/trace/{manifest['id']}/t/decoder.blocks.*.cross_attention.weights"
    whole = array(client.get(place))
    np.testing.assert_array_equal(
        array(client.get(place, params={"layer": 0, "head": 1, "query": 2})), whole[0, 1, 2]
    )
    one = place.replace("*", "0")
    np.testing.assert_array_equal(array(client.get(one, params={"head": 1})), whole[0, 1])
    np.testing.assert_array_equal(array(client.get(place, params={"query": 2})), whole[:, :, 2])


def test_halves_and_bytes_are_the_rounded_numbers(client, asked):
    place = f"/api/trace/{asked()['id']}/t/encoder.blocks.*.attention.weights"
    whole = array(client.get(place))
    np.testing.assert_array_equal(array(client.get(place, params={"dtype": "f16"})), whole.astype("f2"))
    roots = array(client.get(place, params={"dtype": "u8s"}))
    np.testing.assert_array_equal(roots, np.round(255 * np.sqrt(whole)).astype("u1"))


def test_a_pooled_cell_is_the_largest_that_it_covers(client, asked):
    place = f"/api/trace/{asked()['id']}/t/encoder.blocks.*.attention.weights"
    whole = array(client.get(place))[0, 0]
    small = array(client.get(place, params={"layer": 0, "head": 0, "pool": 2}))
    length = len(whole)
    for row in range(2):
        for column in range(2):
            rows, columns = (slice(at * length // 2, -(-(at + 1) * length // 2)) for at in (row, column))
            assert small[row, column] == whole[rows, columns].max()


def test_what_is_masked_is_minus_infinity_where_the_map_says_so(client, asked):
    manifest = asked()
    for one in manifest["model"]["attentions"]:
        masked = array(client.get(f"/api/trace/{manifest['id']}/t/{one['path']}.masked"))
        queries, keys = np.indices(masked.shape[-2:])
        hidden = (keys > queries) if one["causal"] else np.zeros_like(keys, bool)
        assert (np.isneginf(masked) == hidden).all()


def test_the_output_is_the_translation(asked, translator):
    manifest = asked()
    found = translator.translate("three one four one")
    assert manifest["output"]["text"] == found.text == "3 1 4 1"
    assert manifest["output"]["log_probability"] == pytest.approx(found.log_probability, abs=1e-4)
    said = [token["next"] for token in manifest["sides"]["target"]]
    assert [token["id"] for token in manifest["output"]["tokens"]] == said
    assert manifest["agreement"] < 1e-5


def test_a_gpt_reads_its_text_and_what_it_wrote(asked, language):
    manifest = asked("to be", model="babbler", tokens=4)
    found = language.generate("to be", tokens=4, temperature=0)
    assert manifest["output"]["text"] == found.text
    written = [token["id"] for token in manifest["sides"]["text"] if token["written"]]
    assert len(written) == 4
    assert [token["id"] for token in manifest["output"]["tokens"]][:4] == written


def test_a_row_of_the_stream_times_a_row_of_the_matrix_is_the_query(asked, got):
    manifest = asked()
    for one in manifest["model"]["attentions"]:
        for part in ("queries", "keys", "values"):
            told = got(
                f"trace/{manifest['id']}/projection",
                attention=one["key"], layer=0, head=1, place=1, part=part, dimension=3,
            )  # fmt: skip
            product = np.dot(told["input"], told["weight"]) + told["bias"]
            assert product == pytest.approx(told["output"][3], abs=1e-4)
            assert told["product"] == pytest.approx(told["output"][3], abs=1e-4)


def test_large_traces_compute_again_what_they_did_not_keep(asked, client, monkeypatch, translator):
    monkeypatch.setattr("clearhead.explorer.run.KEPT_BYTES", 1000)
    small = asked()
    told = translator.explain("three one four one")
    name = "encoder.blocks.0.attention.scores"
    again = array(client.get(f"/api/trace/{small['id']}/t/{name}"))
    np.testing.assert_array_equal(again, told[name].numpy())
    monkeypatch.undo()
    assert small["bytes"] < asked()["bytes"]


def test_the_oldest_traces_go_when_memory_is_full(models):
    from fastapi.testclient import TestClient

    from clearhead.explorer.app import make_app
    from clearhead.explorer.library import Library

    client = TestClient(make_app(Library(models), kept_bytes=1), base_url="http://127.0.0.1")
    first, second = (
        client.post("/api/trace", json={"text": text}).json()["id"] for text in ("one two", "two one")
    )
    assert client.get(f"/api/trace/{second}").status_code == 200
    gone = client.get(f"/api/trace/{first}")
    assert (gone.status_code, gone.json()["gone"]) == (404, True)


def test_what_a_trace_computes_later_counts_too(translator, monkeypatch):
    monkeypatch.setattr("clearhead.explorer.run.KEPT_BYTES", 1000)
    first, second = (tell(translator, "numbers", {"text": text}) for text in ("one two", "two one"))
    for one in (first, second):
        one.run()
    traces = Traces(first.bytes + second.bytes)
    traces.add("first", first)
    traces.add("second", second)
    assert traces.found("first") is first
    first.fetch("encoder.blocks.*.attention.scores")
    assert traces.bytes == first.bytes + second.bytes > traces.bound
    assert traces.found("first") is first
    assert len(traces) == 1


def test_the_tree_holds_the_path_of_the_output_and_why_others_were_dropped(asked, got):
    manifest = asked(beam=3)
    tree = got(f"trace/{manifest['id']}/beam")
    nodes = tree["nodes"]
    best = [node for node in nodes if node["best"]]
    assert [node["id"] for node in best] == [token["id"] for token in manifest["output"]["tokens"]]
    assert best[-1]["score"] == pytest.approx(manifest["output"]["score"], abs=1e-5)
    for node in nodes:
        before = 0 if node["parent"] is None else nodes[node["parent"]]["total"]
        assert node["total"] == pytest.approx(before + node["log_probability"], abs=1e-4)
        assert (node["why"] is not None) >= (node["state"] == "dropped")
    assert tree["beam"] == 3


def test_a_forced_token_is_followed(asked, got, translator):
    first = got(f"trace/{asked(beam=3)['id']}/beam")["nodes"][1]["id"]
    forced = asked(beam=3, forced=[first])
    assert forced["output"]["tokens"][0]["id"] == first
    text = translator.tokenizer.decode([first])
    assert asked(beam=3, prefix=text)["output"]["text"] == forced["output"]["text"]


def test_an_output_that_was_given_has_no_tree(client, asked):
    manifest = asked(target="3 1 4 1")
    assert "beam" not in manifest["parts"]
    answer = client.get(f"/api/trace/{manifest['id']}/beam")
    assert (answer.status_code, answer.json()["field"]) == (400, "beam")


def test_a_model_that_is_offered_by_its_name_is_that_of_the_package_whatever_folders_are_here(
    models, boxed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("en-fr").mkdir()
    Path("en-fr/config.toml").touch()
    with Library(models).using("en-fr") as (model, name):
        assert (str(model.translate("three one four")), name) == ("c a d", "en-fr")
