"""Models that are defined outside the package are captured, explained and drawn by their anatomy."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import ModelError, SettingsError
from clearhead.inspection import Mute, Token, capture, explain_pass, intervene
from clearhead.inspection.pictures.draw import views
from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.block import BlockConfig, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Mask
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart

DIGITS = [3, 1, 4, 1, 5]
TOKENS = [Token(digit, str(digit), word=position) for position, digit in enumerate(DIGITS)]


class Everything(Mask):
    def dense(self, queries: int, keys: int, device: torch.device) -> None:
        return None


class Sorter(nn.Module):
    """Reads digits with one attention; there is no stack, no tap and no configuration."""

    def __init__(self):
        super().__init__()
        self.embedding = Embedding(10, 16, "learned", 8, dropout=0.0)
        self.attention = Attention(16, AttentionConfig(heads=2), max_positions=8)
        self.output = nn.Linear(16, 10)

    def anatomy(self) -> Anatomy:
        part = AttentionPart("digits", None, "attention", "digits", "digits", causal=False)
        return Anatomy(embeddings={"digits": "embedding"}, stacks=(), attentions=(part,), readout="output")

    def forward(self, digits: Tensor) -> Tensor:
        x = self.embedding(digits)
        queries, memory = self.attention.project_qkv(x)
        return self.output(x + self.attention(queries, memory, Everything()))


class SorterConfig(BlockConfig):
    @property
    def max_positions(self) -> int:
        return 8


class StackedSorter(nn.Module):
    """The same with a stack of blocks, under paths that no model of the package has."""

    def __init__(self):
        super().__init__()
        config = SorterConfig.model_validate({"width": 16, "ffn_width": 32, "attention": {"heads": 2}})
        self.digits = Embedding(10, 16, "sinusoidal", 8, dropout=0.0)
        self.body = Stack(config, layers=3)
        self.head = nn.Linear(16, 10)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"digits": "digits"},
            stacks=(StackPart("body", "digits", 3, ("attention", "feedforward")),),
            attentions=(AttentionPart("self", "body", "attention", "digits", "digits", causal=False),),
            readout="head",
        )

    def forward(self, digits: Tensor) -> Tensor:
        return self.head(self.body(self.digits(digits), Everything()))


def make(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


def explain(model: nn.Module, **options):
    digits = torch.tensor([DIGITS])
    return explain_pass(model, lambda: model(digits)[0], {"digits": TOKENS}, **options)


def test_the_attention_of_a_model_without_a_stack_is_captured():
    model = make(Sorter)
    with capture(model, ["attention.weights", "logits"]) as trace, torch.no_grad():
        logits = model(torch.tensor([DIGITS]))
    torch.testing.assert_close(trace["attention.weights"].sum(-1), torch.ones(1, 2, 5))
    assert torch.equal(trace["logits"], logits)
    assert not model._forward_hooks


def test_an_intervention_changes_the_output_of_a_model_without_a_stack():
    model, digits = make(Sorter), torch.tensor([DIGITS])
    before = model(digits)
    with intervene(model, {"attention.head_output": Mute([0])}):
        assert not torch.allclose(model(digits), before)
    assert torch.equal(model(digits), before)


def test_an_explanation_needs_no_tokenizer():
    explanation = explain(make(Sorter))
    assert explanation.text == "3 1 4 1 5"
    assert explanation.kind == "Sorter"
    assert explanation.source == ()
    assert [token.piece for token in explanation.target] == ["3", "1", "4", "1", "5"]
    assert explanation.difference < 1e-5
    assert explanation["attention.weights"].shape == (2, 5, 5)
    assert explanation.pieces([4, 9]) == ["4", "9"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Sorter, ["atlas", "head", "row", "positions", "neighbours"]),
        (StackedSorter, ["atlas", "head", "row", "residual", "lens", "positions", "neighbours"]),
    ],
)
def test_every_available_view_is_drawn(kind, expected):
    explanation = explain(make(kind))
    assert views(explanation) == expected
    for view in expected:
        assert explanation.picture(view).content("svg")


def test_an_explanation_is_saved_as_a_picture_and_as_numbers(tmp_path):
    explanation = explain(make(StackedSorter))
    assert explanation.save(tmp_path / "atlas.png", "atlas").read_bytes().startswith(b"\x89PNG")
    saved = json.loads(explanation.save(tmp_path / "sorter.json").read_text())
    assert [token["piece"] for token in saved["sides"]["digits"]] == ["3", "1", "4", "1", "5"]
    assert [head["name"] for head in saved["attentions"]["self"][::2]] == [
        f"body.blocks.{layer}.attention.weights" for layer in range(3)
    ]
    assert saved["model"]["kind"] == "StackedSorter"


def test_the_atlas_names_the_layers_of_any_stack():
    picture = explain(make(StackedSorter)).picture("atlas")
    assert "weights of body.blocks.*.attention" in picture.caption
    assert "3 1 4 1 5" in picture.caption
    assert "Thumbnails of 6 heads, body.blocks.0.attention to body.blocks.2.attention" in picture.alt


def test_log_probs_follow_from_the_next_tokens():
    model, following = make(StackedSorter), sorted(DIGITS)
    tokens = [Token(digit, str(digit), next=wanted) for digit, wanted in zip(DIGITS, following, strict=True)]
    digits = torch.tensor([DIGITS])
    explanation = explain_pass(model, lambda: model(digits)[0], {"digits": tokens}, ["*.weights"])
    with torch.no_grad():
        log_probs = model(digits)[0].log_softmax(-1)
    for position, token in enumerate(explanation.target):
        assert token.log_prob == pytest.approx(float(log_probs[position, following[position]]))


def test_a_model_without_an_anatomy_is_an_error_that_says_how_to_fix_it():
    with pytest.raises(ModelError, match=r"Linear: declares no anatomy; add a method `anatomy\(\)`"):
        explain_pass(nn.Linear(2, 2), lambda: torch.zeros(1), {})


def test_missing_sides_are_an_error():
    with pytest.raises(SettingsError, match="sides: digits missing; pass the tokens of each side"):
        explain_pass(make(Sorter), lambda: torch.zeros(1), {})


def test_unknown_options_of_a_picture_are_type_errors():
    with pytest.raises(TypeError, match="layers"):
        explain(make(Sorter)).picture("atlas", layers=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(SettingsError, match="layer: "):
        explain(make(Sorter)).picture("head", layer="first")  # pyright: ignore[reportArgumentType]


def test_the_example_in_the_documentation_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "pictures.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/pictures.md", "exec"), {"__name__": "example"})
    assert (tmp_path / "atlas.png").read_bytes().startswith(b"\x89PNG")
