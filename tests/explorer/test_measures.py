"""What the server measures: equal to the same measure taken another way."""

import numpy as np
import pytest
import torch

from clearhead.text.tokenizer import BOS, EOS


def test_a_map_counts_what_the_model_has(got, translator):
    told = got("model", model="numbers")
    assert told["parameters"] == sum(weight.numel() for weight in translator.model.parameters())
    assert [stack["layers"] for stack in told["stacks"]] == [1, 1]
    assert got("models")["models"][0] == {"name": "numbers", "kind": "translator", "loaded": True}


def test_probabilities_are_those_of_the_full_softmax(asked, got, translator):
    manifest = asked()
    told = got(f"trace/{manifest['id']}/logits", place=1, top=5)
    full = translator.explain("three one four one")["logits"][1].softmax(-1)
    assert [row["probability"] for row in told["top"]] == pytest.approx(full.topk(5).values.tolist())
    assert told["next"]["rank"] == 0
    assert told["next"]["id"] == manifest["sides"]["target"][1]["next"]


def test_a_cut_leaves_probabilities_that_sum_to_one(asked, got):
    manifest = asked()
    told = got(f"trace/{manifest['id']}/logits", place=0, top=40, top_k=3, temperature=2.0)
    kept = [row for row in told["top"] if row["kept"]]
    assert told["kept"] == len(kept) == 3
    assert sum(row["drawn"] for row in kept) == pytest.approx(1)
    assert all(row["drawn"] == 0 for row in told["top"][3:])


def test_the_lens_after_the_last_layer_is_the_model_itself(asked, got):
    manifest = asked()
    lens = got(f"trace/{manifest['id']}/lens", top=1)
    assert lens["rows"] == ["embedding", "0"]
    for place in range(len(manifest["sides"]["target"])):
        told = got(f"trace/{manifest['id']}/logits", place=place, top=1)
        assert lens["cells"][-1][place][0]["id"] == told["top"][0]["id"]
        assert lens["next"][-1][place] == pytest.approx(told["next"]["probability"], abs=1e-5)


def test_summaries_speak_of_every_head_and_sublayer(asked, got):
    manifest = asked()
    told = got(f"trace/{manifest['id']}/summaries")
    for one in manifest["model"]["attentions"]:
        assert len(told["attentions"][one["key"]]["heads"]) == one["layers"] * one["heads"]
    assert [row["sublayer"] for row in told["residual"]["decoder"]] == [
        "attention",
        "cross_attention",
        "feedforward",
    ]
    assert len(told["aligners"]["ranked"]) == 2
    assert told["aligners"]["words"]["source"] == ["three", "one", "four", "one"]
    assert np.asarray(told["rollout"]["encoder"]).sum(-1) == pytest.approx(1)


@pytest.mark.parametrize(("temperature", "seed"), [(0.0, 0), (1.0, 7)])
def test_single_steps_are_the_continuation(client, language, temperature, seed):
    whole = language.generate("to be", tokens=5, temperature=temperature, seed=seed)
    written: list[int] = []
    while len(written) < 5:
        asked = {
            "model": "babbler",
            "text": "to be",
            "written": written,
            "temperature": temperature,
            "seed": seed,
        }
        told = client.post("/api/step", json=asked).json()
        if told["ended"]:
            break
        written.append(told["next"]["id"])
    assert language.tokenizer.decode(written) == whole.text


def test_single_steps_of_a_translator_are_its_greedy_translation(client, translator):
    written: list[int] = []
    while True:
        told = client.post("/api/step", json={"text": "two nine", "written": written}).json()
        written.append(told["next"]["id"])
        if told["ended"]:
            break
    assert written[-1] == EOS
    assert told["text"] == translator.translate("two nine", beam=1).text
    assert told["cache"]["places"] == len(written)


def test_positions_are_what_the_embedding_adds(client, translator):
    answer = client.get("/api/positions", params={"places": 4})
    sent = np.frombuffer(answer.content, "<f4").reshape(4, -1)
    added = translator.explain("one two three")["source_embedding.position_embeddings"]
    np.testing.assert_allclose(sent, added[:4].numpy(), atol=1e-6)
    assert answer.headers["x-kind"] == "sinusoidal"


def test_neighbours_are_the_nearest_rows_of_the_embedding(got, translator):
    told = got("neighbours", word="three", count=3)
    matrix = translator.model.source_embedding.weight.detach()
    mine = translator.tokenizer.encode("three")[0]
    for row in told["neighbours"]:
        cosine = torch.cosine_similarity(matrix[row["id"]], matrix[mine], dim=0)
        assert row["cosine"] == pytest.approx(float(cosine), abs=1e-5)
    assert mine not in [row["id"] for row in told["neighbours"]]
    assert BOS not in [row["id"] for row in told["neighbours"]]


def test_a_word_is_itself_in_all_contexts_only_before_the_first_layer(client):
    asked = {"word": "two", "texts": ["two nine", "one two three"]}
    told = client.post("/api/contexts", json=asked).json()
    assert told["places"] == [[0], [1]]
    first, last = told["similar"]
    assert first[0][1] == pytest.approx(1)
    assert last[0][1] < 0.9999


@pytest.mark.parametrize("model", ["numbers", "babbler"])
def test_a_heads_contribution_is_what_muting_it_takes(asked, got, model):
    text, more = ("three one", {"target": "3 1"}) if model == "numbers" else ("to be or", {})
    manifest = asked(text, model=model, **more)
    told = got(f"trace/{manifest['id']}/contributions")
    one = told["heads"][-1]
    path = next(each["path"] for each in manifest["model"]["attentions"] if each["key"] == one["attention"])
    mute = {"kind": "mute", "attention": path.replace("*", str(one["layer"])), "heads": [one["head"]]}
    muted = asked(text, model=model, interventions=[mute], **more)
    side = list(manifest["sides"])[-1]
    sums = [sum(token["log_probability"] or 0 for token in each["sides"][side]) for each in (muted, manifest)]
    assert one["change"] == pytest.approx(sums[0] - sums[1], abs=1e-4)
    assert len(told["heads"]) == sum(
        each["layers"] * each["heads"] for each in manifest["model"]["attentions"]
    )
