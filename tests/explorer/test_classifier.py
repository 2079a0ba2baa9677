"""The explorer with a classifier of texts: its probabilities, and the tokens that decide them."""

from collections.abc import Iterator

import pytest
import torch
from fastapi.testclient import TestClient

from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.models import build, read_config
from clearhead.tasks.classification.model import SequenceModel
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TEXT = "this film was not bad at all"


def review_classifier() -> SequenceModel:
    """An untrained encoder that tells good from bad reviews."""
    torch.manual_seed(0)
    words = Tokenizer.train([TEXT], TokenizerConfig(kind="word", vocabulary=20))
    processor = TextProcessor(words, ("good", "bad"))
    settings = {"kind": "encoder", "width": 16, "ffn_width": 24, "attention": {"heads": 2}}
    return SequenceModel(build(read_config(settings), processor), processor)


@pytest.fixture(scope="module")
def reviews() -> SequenceModel:
    return review_classifier()


@pytest.fixture(scope="module")
def client(reviews) -> Iterator[TestClient]:
    with TestClient(make_app(Library([("reviews", reviews)])), base_url="http://127.0.0.1") as client:
        yield client


def test_a_trace_has_the_probability_of_every_label(make_trace, reviews):
    trace = make_trace(TEXT)
    assert trace["output"]["probabilities"] == reviews.classify(TEXT).probabilities
    mute = {"kind": "mute", "attention": "encoder.blocks.0.attention", "heads": [0, 1]}
    muted = make_trace(TEXT, interventions=[mute])
    assert muted["before"]["probabilities"] == trace["output"]["probabilities"]
    assert muted["output"]["probabilities"] != trace["output"]["probabilities"]


def test_the_relevance_of_tokens_is_that_of_python(make_trace, get_json, reviews):
    trace = make_trace(TEXT)
    found, expected = get_json(f"trace/{trace['id']}/relevance"), reviews.relevance(TEXT).record()
    assert found["label"] == expected["label"] == trace["output"]["text"]
    for method, values in expected["values"].items():
        assert found["values"][method] == pytest.approx(values, abs=1e-5)
    assert found["deletion"]["comprehensiveness"] == pytest.approx(expected["deletion"]["comprehensiveness"])
