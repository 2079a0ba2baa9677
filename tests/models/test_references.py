"""The translator equals torch's and Marian's Transformers with the same weights."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from clearhead.layers.attention import Attention
from clearhead.layers.block import Stack
from clearhead.layers.layout import Padded
from clearhead.layers.positions import Learned, sinusoids
from clearhead.models.translator import Translator, TranslatorConfig

VOCABULARY, WIDTH, HEADS, FFN_WIDTH, LAYERS, MAX_LENGTH = 31, 24, 4, 40, 3, 20
LENGTHS = torch.tensor([8, 5, 1])
SOURCE = torch.randint(4, VOCABULARY, (3, 8)).masked_fill(torch.arange(8) >= LENGTHS[:, None], 0)
TARGET = torch.randint(4, VOCABULARY, (3, 6))
PADDING = torch.arange(8) >= LENGTHS[:, None]


def make_translator(**changes: object) -> Translator:
    settings = {
        "width": WIDTH,
        "ffn_width": FFN_WIDTH,
        "attention": {"heads": HEADS},
        "encoder_layers": LAYERS,
        "decoder_layers": LAYERS,
        "max_length": MAX_LENGTH,
        **changes,
    }
    return Translator(TranslatorConfig.model_validate(settings), VOCABULARY).eval()


def randomize(module: nn.Module) -> None:
    """Sets random values everywhere: biases of 0 and norms of 1 would hide mistakes."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.3)


@torch.no_grad()
def copy(ours: Any, theirs: Any) -> None:
    """Sets the weight and the bias of our layer to those of theirs."""
    ours.load_state_dict(theirs.state_dict())


def copy_torch_attention(ours: Attention, theirs: Any) -> None:
    project = {"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias}
    ours.project.load_state_dict(project)
    copy(ours.output, theirs.out_proj)


def copy_torch_stack(ours: Stack, theirs: Any) -> None:
    for block, layer in zip(cast(Any, ours.blocks), theirs.layers, strict=True):
        norms = [block.attention_residual.norm, block.feedforward_residual.norm]
        copy_torch_attention(block.attention, layer.self_attn)
        if isinstance(layer, nn.TransformerDecoderLayer):
            copy_torch_attention(block.cross_attention, layer.multihead_attn)
            norms.insert(1, block.cross_residual.norm)
        copy(block.feedforward.inner, layer.linear1)
        copy(block.feedforward.outer, layer.linear2)
        for number, norm in enumerate(norms, start=1):
            copy(norm, getattr(layer, f"norm{number}"))
    if theirs.norm is not None:
        copy(ours.norm, theirs.norm)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("position", ["post", "pre"])
@torch.no_grad()
def test_ours_equals_torch(position: str, activation: str):
    pre = position == "pre"
    shape = {"dim_feedforward": FFN_WIDTH, "dropout": 0.0, "activation": activation, "batch_first": True}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, HEADS, norm_first=pre, **shape),
        LAYERS,
        norm=nn.LayerNorm(WIDTH) if pre else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(WIDTH, HEADS, norm_first=pre, **shape),
        LAYERS,
        norm=nn.LayerNorm(WIDTH) if pre else None,
    )
    model = make_translator(norm_position=position, activation=activation)
    for module in (encoder, decoder, model):
        randomize(module)
    copy_torch_stack(model.encoder, encoder)
    copy_torch_stack(model.decoder, decoder)

    matrix = model.source_embedding.weight

    def embed(tokens: Tensor) -> Tensor:
        return matrix[tokens] * WIDTH**0.5 + sinusoids(torch.arange(tokens.shape[1]), WIDTH)

    encoded = encoder(embed(SOURCE), src_key_padding_mask=PADDING)
    future = torch.ones(6, 6, dtype=torch.bool).triu(1)
    decoded = decoder(embed(TARGET), encoded, tgt_mask=future, memory_key_padding_mask=PADDING)
    torch.testing.assert_close(model.states(SOURCE, Padded(LENGTHS), TARGET), decoded, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        model(SOURCE, Padded(LENGTHS), TARGET), decoded @ matrix.T, atol=1e-5, rtol=1e-5
    )


def copy_marian_attention(ours: Attention, theirs: Any) -> None:
    parts = [theirs.q_proj, theirs.k_proj, theirs.v_proj]
    project = {name: torch.cat([getattr(part, name) for part in parts]) for name in ("weight", "bias")}
    ours.project.load_state_dict(project)
    copy(ours.output, theirs.out_proj)


def copy_marian_stack(ours: Stack, theirs: Any) -> None:
    for block, layer in zip(cast(Any, ours.blocks), theirs.layers, strict=True):
        copy_marian_attention(block.attention, layer.self_attn)
        copy(block.attention_residual.norm, layer.self_attn_layer_norm)
        if hasattr(layer, "encoder_attn"):
            copy_marian_attention(block.cross_attention, layer.encoder_attn)
            copy(block.cross_residual.norm, layer.encoder_attn_layer_norm)
        copy(block.feedforward.inner, layer.fc1)
        copy(block.feedforward.outer, layer.fc2)
        copy(block.feedforward_residual.norm, layer.final_layer_norm)


def make_marian(activation: str) -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=FFN_WIDTH,
        decoder_ffn_dim=FFN_WIDTH,
        max_position_embeddings=MAX_LENGTH,
        activation_function=activation,
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=2,
        bos_token_id=2,
        forced_eos_token_id=None,
    )
    return transformers.MarianMTModel(config).eval()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@torch.no_grad()
def test_ours_equals_marian(activation: str):
    marian = make_marian(activation)
    table = marian.model.encoder.embed_positions.weight.clone()
    randomize(marian)
    for side in (marian.model.encoder, marian.model.decoder):
        side.embed_positions.weight.copy_(table)
    # Marian's sinusoids have another order of dimensions: first all sines, then all cosines.
    by_wave = torch.cat([torch.arange(0, WIDTH, 2), torch.arange(1, WIDTH, 2)])
    torch.testing.assert_close(sinusoids(torch.arange(MAX_LENGTH), WIDTH)[:, by_wave], table)

    model = make_translator(activation=activation, position="learned")
    model.source_embedding.weight.copy_(marian.model.shared.weight)
    for embedding in (model.source_embedding, model.target_embedding):
        cast(Learned, embedding.position).weight.copy_(table)
    copy_marian_stack(model.encoder, marian.model.encoder)
    copy_marian_stack(model.decoder, marian.model.decoder)

    theirs = marian(input_ids=SOURCE, attention_mask=(~PADDING).long(), decoder_input_ids=TARGET).logits
    torch.testing.assert_close(model(SOURCE, Padded(LENGTHS), TARGET), theirs, atol=1e-5, rtol=1e-5)
    state = model.start(SOURCE, LENGTHS)
    steps = torch.stack([model.step(tokens, state) for tokens in TARGET.T], dim=1)
    torch.testing.assert_close(steps, theirs, atol=1e-5, rtol=1e-5)
