"""A family without attention, layers or embeddings opens in the explorer: here a table of bigrams."""

import math
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from fastapi.testclient import TestClient
from torch import Tensor, nn

from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.explorer.standalone import standalone_page
from clearhead.inspection.explanation import Explanation, explain_pass, text_tokens, with_next
from clearhead.models.anatomy import Anatomy
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

SENTENCES = ["the dog runs", "the dog sleeps", "the cat sleeps"]


class Bigrams(nn.Module):
    """The relative frequencies of the next token; what was never seen has the logit -inf."""

    counts: Tensor

    def __init__(self, vocabulary: int):
        super().__init__()
        self.config, self.vocabulary = SimpleNamespace(kind="bigrams"), vocabulary
        self.register_buffer("counts", torch.zeros(vocabulary, vocabulary))

    def anatomy(self) -> Anatomy:
        return Anatomy(embeddings={}, stacks=(), attentions=())

    def forward(self, tokens: Tensor) -> Tensor:
        rows = self.counts[tokens]
        # A token without successors is followed by any.
        return torch.where(rows.sum(-1, keepdim=True) > 0, rows, 1.0).log().log_softmax(-1)


class BigramsInUse:
    name = "bigrams"

    def __init__(self):
        self.tokenizer = Tokenizer.train(SENTENCES, TokenizerConfig(kind="word", vocabulary=50))
        self.model = Bigrams(self.tokenizer.size).eval()
        for sentence in SENTENCES:
            ids = self.tokenizer.encode(sentence)
            for one, following in pairwise(ids):
                self.model.counts[one, following] += 1

    def explain(self, text: str, *, names: Sequence[str] = ("*",)) -> Explanation:
        ids = self.tokenizer.encode(text)
        tokens = {"text": with_next(text_tokens(self.tokenizer, ids), ids[1:])}
        return explain_pass(
            self.model, lambda: self.model(torch.tensor([ids]))[0], tokens, names, self.tokenizer, text
        )

    def next_logits(self, text: str, generated: Sequence[int] = (), to: str | None = None):
        ids = [*self.tokenizer.encode(text), *generated]
        return self.model(torch.tensor([ids]))[0, -1], len(ids)


@pytest.fixture(scope="module")
def bigrams() -> BigramsInUse:
    return BigramsInUse()


@pytest.fixture(scope="module")
def counting_client(bigrams) -> TestClient:
    return TestClient(make_app(Library([("bigrams", bigrams)])), base_url="http://127.0.0.1")


def traced(client: TestClient, text: str) -> dict:
    response = client.post("/api/trace", json={"text": text})
    assert response.status_code == 200, response.text
    return client.get(f"/api/trace/{response.json()['id']}").json()


def test_its_map_names_no_part(counting_client, bigrams):
    about = counting_client.get("/api/model").json()
    assert about["stacks"] == about["attentions"] == about["recurrences"] == []
    assert [about[name] for name in ("width", "heads", "head_size", "score")] == [None] * 4
    assert (about["vocabulary"], about["parameters"]) == (bigrams.tokenizer.size, 0)
    assert (about["output_side"], about["generates"]) == ("text", True)


def test_its_trace_has_the_next_token_and_nothing_else(counting_client, bigrams):
    manifest = traced(counting_client, "the dog runs")
    assert manifest["parts"] == ["summaries", "logits"]
    assert [entry["name"] for entry in manifest["tensors"]] == ["logits"]
    assert manifest["difference"] == 0
    path = f"/api/trace/{manifest['id']}"
    assert counting_client.get(f"{path}/summaries").json()["attentions"] == {}
    found = counting_client.get(f"{path}/logits", params={"position": 0}).json()
    # "the" is followed by "dog" twice and by "cat" once.
    assert [round(row["probability"], 6) for row in found["top"][:3]] == [0.666667, 0.333333, 0]
    assert found["top"][2]["logit"] is None


def test_a_token_that_cannot_follow_has_no_log_probability(counting_client):
    tokens = traced(counting_client, "dog the cat")["sides"]["text"]
    assert tokens[0]["log_prob"] is None
    assert tokens[1]["log_prob"] == pytest.approx(-math.log(3))


def test_it_generates_step_by_step_without_a_cache(counting_client, bigrams):
    step = counting_client.post("/api/step", json={"text": "the"}).json()
    assert step["text"] == "the dog"
    assert step["cache"] is None


def test_what_needs_layers_or_embeddings_is_refused_in_one_line(counting_client):
    mute = {"kind": "mute", "attention": "encoder.blocks.0.attention", "heads": [0]}
    swap = {"kind": "embedding", "side": "text", "position": 0, "token": "dog"}
    for edit in (mute, swap):
        response = counting_client.post("/api/trace", json={"text": "the", "interventions": [edit]})
        assert response.status_code == 400
        assert "none" in response.json()["error"]
    assert counting_client.get("/api/neighbours?word=dog").status_code == 400
    body = {"word": "dog", "texts": ["the dog", "the dog runs"]}
    assert "no layers" in counting_client.post("/api/contexts", json=body).json()["error"]
    assert counting_client.get("/api/positions").headers["x-shape"] == "0,0"


def test_it_can_be_saved_as_a_file(bigrams):
    assert '"kind": "bigrams"' in standalone_page(bigrams.explain("the dog runs"))
