"""The ViT is the one stack over patches: fused = explicit, positions, pooling and its declared parts."""

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn

from clearhead.data.image_processor import ImageProcessor
from clearhead.errors import ModelError
from clearhead.inspection import capture
from clearhead.layers.patches import Rotary2d
from clearhead.models import ViT, ViTConfig, build
from clearhead.training.optimizer import hidden_matrices

SMALL = {"image_size": 16, "layers": 2, "width": 24, "ffn_width": 32, "attention": {"heads": 2}}
STEM = {"kind": "convolutional", "channels": (8, 16), "convolutions": 2}
VARIANTS = {
    "class token": {},
    "rotary": {"position": "rotary"},
    "stem": {"patches": STEM, "head": {"pooling": "sequence"}},
    "rotary stem": {"patches": STEM, "position": "rotary", "head": {"pooling": "mean"}},
    "qk norm": {
        "attention": {"heads": 2, "qk_norm": "rms"},
        "position": "sinusoidal",
        "head": {"pooling": "max"},
    },
}


def vit(**settings) -> ViT:
    torch.manual_seed(0)
    return build(
        ViTConfig.model_validate({**SMALL, **settings}), ImageProcessor(16, labels=("a", "b", "c"))
    ).eval()


@pytest.fixture
def images() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(3, 3, 16, 16)


@pytest.mark.parametrize("name", VARIANTS)
def test_fused_equals_explicit(name: str, images):
    model = vit(**VARIANTS[name])
    fused = model(images)
    with capture(model) as trace:
        explicit = model(images)
    assert fused.shape == (3, 3)
    torch.testing.assert_close(fused, explicit)
    weights = trace["encoder.blocks.1.attention.weights"]
    assert weights.shape == (3, 2, model.config.max_positions, model.config.max_positions)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_of_fused_and_explicit_agree(name: str, images):
    model, found = vit(**VARIANTS[name]), []
    for watched in (False, True):
        model.zero_grad()
        if watched:
            with capture(model, ["*.weights"]):
                model(images).square().sum().backward()
        else:
            model(images).square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(found[0]) == len(list(model.parameters()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_states_are_the_class_token_and_the_patches(images):
    assert vit().states(images).shape == (3, 1 + 16, 24)
    assert vit(head={"pooling": "mean"}).states(images).shape == (3, 16, 24)
    assert vit(patches=STEM, head={"pooling": "mean"}).states(images).shape == (3, 16, 24)
    assert ViT(ViTConfig.model_validate(SMALL))(images).shape == (3, 17, 24)


def test_linear_patches_are_one_product_per_patch_row_by_row(images):
    model = vit(position="none", head={"pooling": "mean"})
    patches = images.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    project = model.embedding.patches
    expected = F.linear(patches, project.weight.flatten(1), project.bias)
    torch.testing.assert_close(model.embedding(images), expected, rtol=1e-4, atol=1e-5)


def test_a_plain_vit_equals_torchs_transformer_encoder(images):
    model = vit(activation="relu", norm_position="post", position="none", head={"pooling": "mean"})
    layer = nn.TransformerEncoderLayer(24, 2, 32, dropout=0.0, batch_first=True)
    reference = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for ours, theirs in zip(model.encoder.blocks, reference.layers, strict=True):
        with torch.no_grad():
            theirs.self_attn.in_proj_weight.copy_(ours.attention.project.weight)
            theirs.self_attn.in_proj_bias.copy_(ours.attention.project.bias)
        theirs.self_attn.out_proj.load_state_dict(ours.attention.output.state_dict())
        theirs.linear1.load_state_dict(ours.feedforward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feedforward.outer.state_dict())
        theirs.norm1.load_state_dict(ours.attention_residual.norm.state_dict())
        theirs.norm2.load_state_dict(ours.feedforward_residual.norm.state_dict())
    torch.testing.assert_close(model.states(images), reference(model.embedding(images)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("position", ["learned", "rotary", "sinusoidal", "none"])
def test_only_a_model_without_positions_ignores_the_order_of_patches(position: str, images):
    model = vit(position=position, head={"pooling": "mean"})
    shuffled = images.roll((4, 8), (2, 3))  # whole patches
    same = torch.allclose(model(images), model(shuffled), atol=1e-4)
    assert same == (position == "none")


def test_rotary_scores_depend_on_the_distance_of_rows_and_columns_alone():
    rotary, side = Rotary2d(8, 5, class_token=True, base=100.0), 5
    torch.manual_seed(0)
    query, key = torch.randn(2, 8)
    queries = rotary.rotate(query.expand(1, 1, side**2 + 1, 8))[0, 0]
    keys = rotary.rotate(key.expand(1, 1, side**2 + 1, 8))[0, 0]
    torch.testing.assert_close(queries[0], query)
    scores = (queries[1:] @ keys[1:].T).unflatten(0, (side, side)).unflatten(-1, (side, side))
    torch.testing.assert_close(scores[0, 0, 2, 1], scores[2, 3, 4, 4])
    assert not torch.allclose(scores[0, 0, 2, 1], scores[0, 0, 1, 2], atol=1e-3)


def test_sequence_pooling_is_a_mean_with_learned_weights(images):
    model = vit(head={"pooling": "sequence"})
    states = model.states(images)
    nn.init.zeros_(model.head.score.weight)
    torch.testing.assert_close(model.head(states), model.head.output(states.mean(1)))


def test_muon_gets_hidden_matrices_alone_not_patches_convolutions_and_the_head():
    assert {name.partition(".")[0] for name in hidden_matrices(vit())} == {"encoder"}
    found = hidden_matrices(vit(patches=STEM, head={"pooling": "sequence"}))
    others = [name for name in found if not name.startswith("encoder.blocks.")]
    assert others == ["embedding.patches.project.weight"]


@pytest.mark.parametrize("patches", [{"kind": "linear"}, STEM])
def test_tensor_sizes_count_the_kernels(patches):
    model = vit(patches=patches)
    kernels = [p for p in model.embedding.patches.parameters() if p.dim() == 4]
    assert list(model.config.tensor_sizes(0).values())[-1] == sum(map(torch.numel, kernels))


def test_impossible_settings_are_explained():
    wrong = {
        "image_size 15 is not divisible by 4": {"image_size": 15},
        "head size that 4 divides": {"position": "rotary", "width": 12},
        "'alibi' needs a line of tokens": {"position": "alibi"},
        "name the channels": {"patches": {"kind": "convolutional", "channels": ()}},
    }
    for message, settings in wrong.items():
        with pytest.raises(ValidationError, match=message):
            ViTConfig.model_validate({**SMALL, **settings})
    with pytest.raises(ModelError, match=r"image_size is 16, but processor\.json makes images of 32 pixels"):
        build(ViTConfig.model_validate(SMALL), ImageProcessor(32))
