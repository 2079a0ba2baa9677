"""A family outside the package opens in the explorer, without a tokenizer or a vocabulary."""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from torch import Tensor, nn

from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.explorer.standalone import standalone_page
from clearhead.inspection.explanation import Explanation, Token, explain_pass
from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.mask import Mask
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart

DIGITS, WIDTH = 10, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention(WIDTH, AttentionConfig(heads=2), max_positions=6)

    def forward(self, x: Tensor) -> Tensor:
        queries, memory = self.attention.project_qkv(x)
        return x + self.attention(queries, memory, Mask())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Layer(), Layer())

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


class Sorter(nn.Module):
    """Reads digits and gives a score for each."""

    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(kind="sorter")
        self.embedding = nn.Embedding(DIGITS, WIDTH)
        self.encoder = Encoder()
        self.score = nn.Linear(WIDTH, 1)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"digits": "embedding"},
            stacks=(StackPart("encoder", "digits", 2, ("attention",)),),
            attentions=(AttentionPart("encoder", "encoder", "attention", "digits", "digits", causal=False),),
            readout=None,
        )

    def forward(self, digits: Tensor) -> Tensor:
        return self.score(self.encoder(self.embedding(digits)))


class SorterInUse:
    name = "sorter"

    def __init__(self):
        torch.manual_seed(0)
        self.model = Sorter().eval()

    def explain(self, text: str, *, names: Sequence[str] = ("*",)) -> Explanation:
        digits = [int(one) for one in text.split()]
        tokens = [Token(digit, str(digit), position) for position, digit in enumerate(digits)]
        ids = torch.tensor([digits])
        output = " ".join(map(str, sorted(digits)))
        return explain_pass(
            self.model, lambda: self.model(ids)[0], {"digits": tokens}, names, text=text, output=output
        )


@pytest.fixture(scope="module")
def sorter() -> SorterInUse:
    return SorterInUse()


@pytest.fixture(scope="module")
def sorting_client(sorter) -> TestClient:
    return TestClient(make_app(Library([("sorter", sorter)])), base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def manifest(sorting_client) -> dict:
    response = sorting_client.post("/api/trace", json={"text": "3 1 2"})
    assert response.status_code == 200, response.text
    return sorting_client.get(f"/api/trace/{response.json()['id']}").json()


def test_its_map_comes_from_its_anatomy(sorting_client):
    assert sorting_client.get("/api/models").json()["models"][0] == {
        "name": "sorter",
        "kind": "sorter",
        "input": "text",
        "loaded": True,
    }
    about = sorting_client.get("/api/model").json()
    stack = {"name": "encoder", "layers": 2, "side": "digits", "sublayers": ["attention"]}
    assert about["stacks"] == [{**stack, "position": "none", "ffn_width": None}]
    assert (about["attentions"][0]["heads"], about["attentions"][0]["head_size"]) == (2, WIDTH // 2)
    absent = ("tokenizer", "vocabulary", "ffn_width", "position", "max_tokens", "beam")
    assert [about[name] for name in absent] == [None] * len(absent)
    assert about["languages"] == []
    assert not about["generates"]


def test_its_trace_has_the_weights_of_python(sorting_client, manifest, sorter):
    explanation = sorter.explain("3 1 2")
    assert manifest["output"]["text"] == "1 2 3"
    assert [token["piece"] for token in manifest["sides"]["digits"]] == ["3", "1", "2"]
    assert manifest["difference"] < 1e-5
    sent = sorting_client.get(f"/api/trace/{manifest['id']}/t/encoder.blocks.*.attention.weights").content
    weights = [explanation[f"encoder.blocks.{layer}.attention.weights"].numpy() for layer in (0, 1)]
    np.testing.assert_array_equal(np.frombuffer(sent, "<f4"), np.stack(weights).ravel())


def test_its_summaries_cover_every_head(sorting_client, manifest):
    summaries = sorting_client.get(f"/api/trace/{manifest['id']}/summaries").json()
    assert len(summaries["attentions"]["encoder"]["heads"]) == 4
    assert (summaries["aligners"], summaries["residual"]) == (None, {})
    assert np.asarray(summaries["rollout"]["encoder"]).sum(-1) == pytest.approx(1)


def test_its_heads_can_be_muted(sorting_client, manifest):
    mute = {"kind": "mute", "attention": "encoder.blocks.0.attention", "heads": [0]}
    response = sorting_client.post("/api/trace", json={"text": "3 1 2", "interventions": [mute]})
    muted = sorting_client.get(f"/api/trace/{response.json()['id']}").json()
    assert muted["before"]["text"] == manifest["output"]["text"]
    path = "t/encoder.blocks.*.attention.head_output"
    outputs = [sorting_client.get(f"/api/trace/{one['id']}/{path}").content for one in (muted, manifest)]
    assert outputs[0] != outputs[1]


def test_what_it_lacks_is_absent_and_no_internal_error(sorting_client, manifest):
    assert manifest["parts"] == ["summaries"]
    queries = {
        "tokens?text=3": 400,
        "neighbours?word=3": 400,
        "positions": 200,
        f"trace/{manifest['id']}/logits?position=0": 404,
        f"trace/{manifest['id']}/beam": 400,
    }
    for path, status in queries.items():
        assert sorting_client.get(f"/api/{path}").status_code == status, path
    assert sorting_client.post("/api/step", json={"text": "3 1"}).status_code == 400


def test_it_can_be_saved_as_a_file(sorter):
    page = standalone_page(sorter.explain("3 1 2"))
    assert '"kind": "sorter"' in page
