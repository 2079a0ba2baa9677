"""Perplexity over a sliding window equals full passes over each context."""

from math import exp, log

import numpy as np
import pytest
import torch

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.store import TextStore
from clearhead.evaluation.perplexity import perplexity, windows
from clearhead.models import GPT, GPTConfig

MODEL = {"preset": "shakespeare-small", "width": 16, "ffn_width": 32, "layers": 1, "attention": {"heads": 2}}
TEXT = np.random.default_rng(0).integers(4, 40, size=50).tolist()


@pytest.fixture(scope="module")
def model() -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig.model_validate({**MODEL, "context_length": 16, "init": "gpt2"}), 40).double()


def documents(*texts: list[int], delimiters=None) -> DelimitedDocuments:
    return DelimitedDocuments(TextStore.of(texts), delimiters)


def test_a_text_within_the_window_has_the_loss_of_one_pass(model):
    found = perplexity(model, documents(TEXT[:12]), size=24)
    logs = model(torch.tensor([TEXT[:12]])).log_softmax(-1)[0]
    expected = -sum(logs[position, TEXT[position + 1]].item() for position in range(11))
    assert found.nats == pytest.approx(expected, rel=1e-5)
    assert (found.tokens, found.bytes) == (11, 24)
    assert found.perplexity == pytest.approx(exp(expected / 11), rel=1e-5)
    assert found.bits_per_byte == pytest.approx(expected / log(2) / 24, rel=1e-5)


@pytest.mark.parametrize("stride", [1, 5, 16])
def test_each_token_is_predicted_from_the_tokens_in_its_window(model, stride):
    expected = 0.0
    for position in range(1, len(TEXT)):
        # The first window that contains this token as a label.
        first = max(0, -(-(position - 16) // stride)) * stride
        expected -= model(torch.tensor([TEXT[first:position]])).log_softmax(-1)[0, -1, TEXT[position]].item()
    found = perplexity(model, documents(TEXT), 50, stride)
    assert found.nats == pytest.approx(expected, rel=1e-5)
    assert (found.window, found.stride) == (16, stride)


def test_chunks_of_logits_give_the_same_result(model, monkeypatch):
    expected, rows, readout = perplexity(model, documents(TEXT), 50), [], model.readout
    monkeypatch.setattr("clearhead.evaluation.perplexity.LOGITS", 3 * 40 + 1)
    monkeypatch.setattr(model, "readout", lambda states: rows.append(len(states)) or readout(states))
    found = perplexity(model, documents(TEXT), 50)
    assert max(rows) == 3
    assert (found.nats, found.tokens) == (pytest.approx(expected.nats, rel=1e-5), expected.tokens)


def test_the_end_token_of_a_document_is_not_predicted():
    texts = [TEXT[:20], TEXT[20:23], TEXT[23:24]]
    batches = list(windows(documents(*texts, delimiters=(2, 3)), 16, 8))
    predicted = [token for _, labels in batches for token in labels[labels != IGNORE_INDEX].tolist()]
    assert sorted(predicted) == sorted(TEXT[:24])
    assert [row[0].item() for inputs, _ in batches for row in inputs].count(2) == 3
    assert (
        len([token for _, labels in windows(documents(*texts), 16, 8) for token in labels[labels >= 0]]) == 21
    )


def test_progress_covers_every_window(model):
    seen = []
    perplexity(model, documents(TEXT), 50, follow=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] > 1
