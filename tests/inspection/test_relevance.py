"""Gradient times input, attention rollout and the deletion test, on models whose answer is known."""

import pytest
import torch
from torch import nn

from clearhead.inspection.intervene import intervene
from clearhead.inspection.relevance import (
    CENTRED,
    GRADIENT,
    RANDOM,
    ROLLOUT,
    SHARES,
    Removal,
    attention_rollout,
    deletion_test,
    gradient_relevance,
)
from clearhead.inspection.summaries import rollout
from clearhead.inspection.trace import capture
from clearhead.layers.embedding import Embedding
from clearhead.models import BiLSTM, BiLSTMConfig, Encoder, EncoderConfig, ViT, ViTConfig
from clearhead.models.heads import Classifier, ClassifierConfig

IDS, LENGTHS = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0]]), torch.tensor([5, 3])


def encoder() -> Encoder:
    torch.manual_seed(3)
    config = EncoderConfig.model_validate(
        {"width": 16, "ffn_width": 32, "layers": 3, "attention": {"heads": 2}, "dropout": 0.0}
    )
    return Encoder(config, 12, Classifier(ClassifierConfig(), 16, 3)).eval()


def test_gradient_times_input_of_a_linear_model_is_what_each_token_adds():
    torch.manual_seed(0)

    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = Embedding(12, 8, "none", 9, 0.0)
            self.output = nn.Linear(8, 1, bias=False)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.output(self.embedding(ids)).sum((1, 2))

    model = Linear()
    inside = torch.arange(5) < LENGTHS[:, None]
    found = gradient_relevance(model, lambda: model(IDS), "embedding.token_embeddings", inside)
    expected = model.output(model.embedding(IDS))[..., 0]
    torch.testing.assert_close(found[GRADIENT], expected)
    torch.testing.assert_close(found[GRADIENT].sum(1), model(IDS))
    mean = (expected * inside).sum(1, keepdim=True) / LENGTHS[:, None]
    torch.testing.assert_close(found[CENTRED], expected - mean)


def test_a_norm_hides_the_length_of_a_vector_from_the_plain_product():
    """So gradient times input is zero where the centred product finds the token that decides."""
    torch.manual_seed(0)
    embedding, norm, output = Embedding(12, 8, "none", 9, 0.0), nn.LayerNorm(8), nn.Linear(8, 1)
    model = nn.ModuleDict({"embedding": embedding, "norm": norm, "output": output})
    found = gradient_relevance(
        model, lambda: output(norm(embedding(IDS))).sum((1, 2)), "embedding.token_embeddings"
    )
    assert found[GRADIENT].abs().max() < 1e-4 < 0.1 < found[CENTRED].abs().max()


@pytest.mark.parametrize("kind", ["encoder", "bilstm"])
def test_padding_has_no_relevance_and_rows_do_not_depend_on_each_other(kind: str):
    torch.manual_seed(1)
    head = Classifier(ClassifierConfig(), 32, 3)
    model = encoder() if kind == "encoder" else BiLSTM(BiLSTMConfig(width=16), 12, head).eval()

    def run(ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        inside = torch.arange(ids.shape[1]) < lengths[:, None]
        site = "embedding.token_embeddings"
        found = gradient_relevance(model, lambda: model(ids, lengths)[:, 1], site, inside)
        return torch.stack([found[GRADIENT], found[CENTRED]])

    both = run(IDS, LENGTHS)
    assert both[:, 1, 3:].abs().max() == 0
    torch.testing.assert_close(both[:, 1:, :3], run(IDS[1:, :3], LENGTHS[1:]), rtol=1e-4, atol=1e-6)


def test_rollout_of_a_batch_is_that_of_each_row_and_adds_up_to_one():
    model = encoder()
    anatomy = model.anatomy()
    [attention] = anatomy.attentions
    read = (torch.arange(5) < LENGTHS[:, None]) / LENGTHS[:, None]
    found = attention_rollout(model, lambda: model(IDS, LENGTHS), anatomy, attention, read)
    torch.testing.assert_close(found.sum(1), torch.ones(2))
    assert found[1, 3:].abs().max() < 1e-6
    with capture(model, ["*.weights"]) as trace:
        model(IDS, LENGTHS)
    layers = torch.stack([trace[f"{path}.weights"] for path in anatomy.layers(attention)], dim=1)
    for row in range(2):
        torch.testing.assert_close(found[row], read[row] @ rollout(layers[row])[-1])


def test_the_deletion_test_prefers_the_method_that_knows_the_answer():
    torch.manual_seed(5)
    # The output is the share that is left of what its tokens add.
    added = [torch.rand(40) ** 6, torch.rand(25) ** 6]
    removable = [torch.arange(40) != 39, torch.arange(25) != 24]

    def probability(removals: list[Removal]) -> list[float]:
        return [
            float(1 - added[number][positions].sum() / added[number].sum()) for number, positions in removals
        ]

    methods = {"right": added, "wrong": [-one for one in added], "blind": [torch.zeros(40), torch.zeros(25)]}
    test = deletion_test(methods, removable, probability)
    assert test.methods == ["right", "wrong", "blind"]
    assert test.probability == [1.0, 1.0]
    assert test.comprehensiveness("right") > test.comprehensiveness(RANDOM) > test.comprehensiveness("wrong")
    gain, error = test.advantage("right")
    assert gain > 2 * error > 0
    assert test.advantage("wrong")[0] < 0
    curve = test.curve("right")
    assert curve == sorted(curve, reverse=True)
    assert len(curve) == 1 + len(SHARES)
    by_hand = 1 - added[0][:39].sort(descending=True).values[:2].sum() / added[0].sum()
    assert test.without["right"][0][1] == pytest.approx(float(by_hand)), "5 % of 39 tokens are 2"
    assert test.record()["comprehensiveness"].keys() == {"right", "wrong", "blind", RANDOM}


def test_the_patches_of_an_image_are_tested_in_the_same_way():
    torch.manual_seed(2)
    config = ViTConfig.model_validate(
        {
            "image_size": 8,
            "width": 16,
            "ffn_width": 16,
            "layers": 2,
            "attention": {"heads": 2},
            "dropout": 0.0,
        }
    )
    model = ViT(config, Classifier(config.head, 16, 3)).eval()  # pyright: ignore[reportArgumentType]
    anatomy, images = model.anatomy(), torch.randn(2, 3, 8, 8)
    [attention] = anatomy.attentions
    classes = model(images).argmax(-1)
    read = torch.zeros(2, config.max_positions)
    read[:, 0] = 1  # the class token
    found = gradient_relevance(model, lambda: model(images)[range(2), classes], "embedding.stream")
    found[ROLLOUT] = attention_rollout(model, lambda: model(images), anatomy, attention, read)
    torch.testing.assert_close(found[ROLLOUT].sum(1), torch.ones(2))

    @torch.no_grad()
    def probability(removals: list[Removal]) -> list[float]:
        chances = []
        for number, positions in removals:

            def hidden(stream: torch.Tensor, positions: torch.Tensor = positions) -> torch.Tensor:
                return stream.index_fill(1, positions, 0.0)

            with intervene(model, {"embedding.stream": hidden}):
                chances.append(float(model(images[number : number + 1]).softmax(-1)[0, classes[number]]))
        return chances

    patches = [torch.arange(config.max_positions) > 0] * 2
    test = deletion_test({method: list(values) for method, values in found.items()}, patches, probability)
    assert test.probability == pytest.approx(model(images).softmax(-1).amax(-1).tolist())
    assert test.methods == [GRADIENT, CENTRED, ROLLOUT]


def test_positions_that_are_not_removable_stay():
    seen: list[set[int]] = []

    def probability(removals: list[Removal]) -> list[float]:
        seen.extend({*removal.positions.tolist()} for removal in removals)
        return [0.5] * len(removals)

    deletion_test(
        {"x": [torch.arange(6.0)]}, [torch.tensor([False, True, True, True, True, False])], probability
    )
    assert not any({0, 5} & positions for positions in seen)
    assert {4} in seen, "the most relevant of the removable positions"
