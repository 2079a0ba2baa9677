"""An n-gram model in the explorer: what follows each token, and which contexts say so."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.explorer.standalone import standalone_page
from clearhead.models import build, read_config
from clearhead.tasks.ngrams.model import NgramModel
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

SENTENCES = ["the dog runs", "the dog sleeps", "the cat sleeps", "a cat runs"]
TEXT = "the dog sleeps"


def ngram_model() -> NgramModel:
    """Trigrams of four sentences."""
    words = Tokenizer.train(SENTENCES, TokenizerConfig(kind="whitespace", vocabulary=40))
    model = build(read_config({"kind": "ngram", "order": 3}), words)
    model.count(np.array([one for text in SENTENCES for one in (BOS, *words.encode(text), EOS)]))
    return NgramModel(model, words, "lines")


@pytest.fixture(scope="module")
def trigrams() -> NgramModel:
    return ngram_model()


@pytest.fixture(scope="module")
def trigram_client(trigrams) -> TestClient:
    return TestClient(make_app(Library([("trigrams", trigrams)])), base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def manifest(trigram_client) -> dict:
    response = trigram_client.post("/api/trace", json={"text": TEXT, "tokens": 2})
    assert response.status_code == 200, response.text
    return trigram_client.get(f"/api/trace/{response.json()['id']}").json()


def test_the_trace_has_the_shares_of_each_order(trigram_client, trigrams, manifest):
    assert manifest["parts"] == ["summaries", "logits"]
    assert [entry["name"] for entry in manifest["tensors"]] == ["orders", "logits"]
    sent = trigram_client.get(f"/api/trace/{manifest['id']}/t/orders")
    shares = np.frombuffer(sent.content, "<f4").reshape(-1, 4)
    expected = trigrams.explain(TEXT, 2)["orders"].numpy()
    np.testing.assert_array_equal(shares, expected.astype(np.float32))
    assert shares.sum(-1) == pytest.approx(1)


def test_probabilities_are_those_of_the_counts(trigram_client, trigrams, manifest):
    tokens = manifest["sides"]["text"]
    found = trigram_client.get(f"/api/trace/{manifest['id']}/logits", params={"position": 1}).json()
    ids = trigrams.tokenizer.encode(TEXT)
    probabilities = trigrams.next_logits("the")[0].exp()
    assert found["next"]["probability"] == pytest.approx(float(probabilities[ids[1]]))
    assert tokens[1]["log_prob"] == pytest.approx(float(probabilities[ids[1]].log()))
    assert found["next"]["id"] == ids[1]


def test_single_steps_equal_generation(trigram_client, trigrams):
    whole = trigrams.generate("the", tokens=4, temperature=0.0)
    generated: list[int] = []
    while len(generated) < 4:
        step = trigram_client.post("/api/step", json={"text": "the", "generated": generated}).json()
        generated.append(step["next"]["id"])
        if step["ended"]:
            break
    assert step["text"] == "the" + whole.text


def test_it_can_be_saved_as_a_file(trigrams):
    assert '"orders"' in standalone_page(trigrams.explain(TEXT))
