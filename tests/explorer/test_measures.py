"""The server's measures equal the same measures taken another way."""

import numpy as np
import pytest
import torch

from clearhead.text.tokenizer import BOS, EOS


def test_the_map_counts_parameters_and_layers(get_json, translator):
    data = get_json("model", model="numbers")
    assert data["parameters"] == sum(weight.numel() for weight in translator.model.parameters())
    assert [stack["layers"] for stack in data["stacks"]] == [1, 1]
    first = {"name": "numbers", "kind": "translator", "input": "text", "loaded": True}
    assert get_json("models")["models"][0] == first


def test_probabilities_are_those_of_the_full_softmax(make_trace, get_json, translator):
    manifest = make_trace()
    data = get_json(f"trace/{manifest['id']}/logits", position=1, top=5)
    full = translator.explain("three one four one")["logits"][1].softmax(-1)
    assert [row["probability"] for row in data["top"]] == pytest.approx(full.topk(5).values.tolist())
    assert data["next"]["rank"] == 0
    assert data["next"]["id"] == manifest["sides"]["target"][1]["next"]


def test_filtered_probabilities_sum_to_one(make_trace, get_json):
    manifest = make_trace()
    data = get_json(f"trace/{manifest['id']}/logits", position=0, top=40, top_k=3, temperature=2.0)
    kept = [row for row in data["top"] if row["kept"]]
    assert data["kept"] == len(kept) == 3
    assert sum(row["sampling_probability"] for row in kept) == pytest.approx(1)
    assert all(row["sampling_probability"] == 0 for row in data["top"][3:])


def test_the_lens_after_the_last_layer_is_the_model_itself(make_trace, get_json):
    manifest = make_trace()
    lens = get_json(f"trace/{manifest['id']}/lens", top=1)
    assert lens["rows"] == ["embedding", "0"]
    for position in range(len(manifest["sides"]["target"])):
        data = get_json(f"trace/{manifest['id']}/logits", position=position, top=1)
        assert lens["cells"][-1][position][0]["id"] == data["top"][0]["id"]
        assert lens["next"][-1][position] == pytest.approx(data["next"]["probability"], abs=1e-5)


def test_summaries_cover_every_head_and_sublayer(make_trace, get_json):
    manifest = make_trace()
    data = get_json(f"trace/{manifest['id']}/summaries")
    for one in manifest["model"]["attentions"]:
        assert len(data["attentions"][one["name"]]["heads"]) == one["layers"] * one["heads"]
    assert [row["sublayer"] for row in data["residual"]["decoder"]] == [
        "attention",
        "cross_attention",
        "feedforward",
    ]
    assert len(data["aligners"]["ranked"]) == 2
    assert data["aligners"]["words"]["source"] == ["three", "one", "four", "one"]
    assert np.asarray(data["rollout"]["encoder"]).sum(-1) == pytest.approx(1)


@pytest.mark.parametrize(("temperature", "seed"), [(0.0, 0), (1.0, 7)])
def test_single_steps_equal_generation(client, language, temperature, seed):
    whole = language.generate("to be", tokens=5, temperature=temperature, seed=seed)
    generated: list[int] = []
    while len(generated) < 5:
        body = {
            "model": "babbler",
            "text": "to be",
            "generated": generated,
            "temperature": temperature,
            "seed": seed,
        }
        data = client.post("/api/step", json=body).json()
        if data["ended"]:
            break
        generated.append(data["next"]["id"])
    assert language.tokenizer.decode(generated) == whole.text


def test_sampled_steps_name_their_reason_and_equal_generation(client, language):
    options = {"temperature": 0.9, "top_k": 12, "top_p": 0.95, "min_p": 0.02, "seed": 5}
    whole = language.generate("to be", tokens=20, **options)  # pyright: ignore
    numbers = torch.rand(20, generator=torch.Generator().manual_seed(5)).tolist()
    generated: list[int] = []
    for step, number in enumerate(numbers):
        body = {"model": "babbler", "text": "to be", "generated": generated, **options}
        data = client.post("/api/step", json=body).json()
        chosen, (begin, end) = data["next"], data["draw"]["parts"][str(data["next"]["id"])]
        assert data["draw"]["number"] == pytest.approx(number)
        assert begin <= number < end
        assert end - begin == pytest.approx(chosen["sampling_probability"], abs=1e-6)
        assert chosen["kept"]
        if data["ended"]:
            break
        assert chosen["log_prob"] == pytest.approx(whole.log_probs[step], abs=1e-4)
        assert chosen["rank"] == sum(one["logit"] > chosen["logit"] for one in data["top"])
        generated.append(chosen["id"])
        assert data["read"].startswith("to be")
    assert language.tokenizer.decode(generated) == whole.text


def test_a_cut_token_names_the_filter_that_cut_it(make_trace, get_json):
    trace = make_trace("to be", model="babbler")
    path, chosen = f"trace/{trace['id']}/logits", {"position": 1, "top": 200}
    own = get_json(path, **chosen)
    assert not own["cuts"]
    assert {one["cut_by"] for one in own["top"]} == {None}
    limit = own["top"][2]["probability"] / own["top"][0]["probability"]
    found = get_json(path, **chosen, top_k=5, min_p=limit * 0.999)
    assert [one["cut_by"] for one in found["top"][:6]] == [None] * 3 + ["min-p"] * 2 + ["top-k"]
    assert found["kept"] == 3
    assert sum(one["sampling_probability"] for one in found["top"]) == pytest.approx(1)
    assert found["next"]["log_prob"] == own["next"]["log_prob"]


def test_single_steps_of_a_translator_equal_greedy_search(client, translator):
    generated: list[int] = []
    while True:
        data = client.post("/api/step", json={"text": "two nine", "generated": generated}).json()
        generated.append(data["next"]["id"])
        if data["ended"]:
            break
    assert generated[-1] == EOS
    assert data["text"] == translator.translate("two nine", beam=1).text
    assert data["cache"]["positions"] == len(generated)


def test_positions_are_what_the_embedding_adds(client, translator):
    response = client.get("/api/positions", params={"positions": 4})
    sent = np.frombuffer(response.content, "<f4").reshape(4, -1)
    added = translator.explain("one two three")["source_embedding.position_embeddings"]
    np.testing.assert_allclose(sent, added[:4].numpy(), atol=1e-6)
    assert response.headers["x-kind"] == "sinusoidal"


def test_neighbours_are_the_nearest_rows_of_the_embedding(get_json, translator):
    data = get_json("neighbours", word="three", count=3)
    matrix = translator.model.source_embedding.weight.detach()
    mine = translator.tokenizer.encode("three")[0]
    for row in data["neighbours"]:
        cosine = torch.cosine_similarity(matrix[row["id"]], matrix[mine], dim=0)
        assert row["cosine"] == pytest.approx(float(cosine), abs=1e-5)
    assert mine not in [row["id"] for row in data["neighbours"]]
    assert BOS not in [row["id"] for row in data["neighbours"]]


def test_a_word_has_the_same_vector_in_all_contexts_only_before_the_first_layer(client):
    body = {"word": "two", "texts": ["two nine", "one two three"]}
    data = client.post("/api/contexts", json=body).json()
    assert data["positions"] == [[0], [1]]
    first, last = data["similarity"]
    assert first[0][1] == pytest.approx(1)
    assert last[0][1] < 0.9999


@pytest.mark.parametrize("model", ["numbers", "babbler"])
def test_a_heads_contribution_is_the_effect_of_muting_it(make_trace, get_json, model):
    text, more = ("three one", {"target": "3 1"}) if model == "numbers" else ("to be or", {})
    manifest = make_trace(text, model=model, **more)
    data = get_json(f"trace/{manifest['id']}/contributions")
    one = data["heads"][-1]
    path = next(each["path"] for each in manifest["model"]["attentions"] if each["name"] == one["attention"])
    mute = {"kind": "mute", "attention": path.replace("*", str(one["layer"])), "heads": [one["head"]]}
    muted = make_trace(text, model=model, interventions=[mute], **more)
    side = list(manifest["sides"])[-1]
    sums = [sum(token["log_prob"] or 0 for token in each["sides"][side]) for each in (muted, manifest)]
    assert one["change"] == pytest.approx(sums[0] - sums[1], abs=1e-4)
    assert len(data["heads"]) == sum(
        each["layers"] * each["heads"] for each in manifest["model"]["attentions"]
    )
