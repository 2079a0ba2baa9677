"""The head for masked tokens, and encoders over rows of several texts."""

import torch
import torch.nn.functional as F

from clearhead.inspection import capture
from clearhead.layers.layout import PackedText, PaddedText
from clearhead.models import Encoder, EncoderConfig
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import MASK, Tokenizer, TokenizerConfig

CONFIG = EncoderConfig.model_validate(
    {
        "layers": 2,
        "width": 16,
        "ffn_width": 32,
        "attention": {"heads": 2},
        "max_length": 12,
        "dropout": 0.0,
        "bias": False,
        "activation": "swiglu",
        "norm": "rms",
        "head": {"kind": "masked_tokens"},
    }
)


def encoder(config: EncoderConfig = CONFIG) -> Encoder:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(["some words to read"] * 3, TokenizerConfig(vocabulary=30), (MASK,))
    return Encoder.build(config, TextProcessor(tokenizer)).eval()


def packed() -> tuple[torch.Tensor, PackedText]:
    """A row of texts of 5, 3 and 2 tokens, and padding."""
    torch.manual_seed(1)
    segments = torch.tensor([[1] * 5 + [2] * 3 + [3] * 2 + [0] * 2])
    positions = torch.tensor([[*range(5), *range(3), *range(2), 0, 0]])
    return torch.randint(5, 20, (1, 12)), PackedText(segments, positions)


def test_texts_in_one_row_equal_texts_one_at_a_time():
    model, (ids, layout) = encoder(), packed()
    states = model.states(ids, layout)
    for first, last in ((0, 5), (5, 8), (8, 10)):
        alone = model.states(ids[:, first:last], PaddedText(torch.tensor([last - first])))
        torch.testing.assert_close(states[:, first:last], alone, rtol=1e-4, atol=1e-5)


def test_fused_attention_over_packed_texts_equals_the_explicit_one():
    model, (ids, layout) = encoder(), packed()
    with torch.no_grad():
        fused = model.states(ids, layout)
        with capture(model, "encoder.blocks.*.attention.weights") as trace:
            explicit = model.states(ids, layout)
    torch.testing.assert_close(fused, explicit, rtol=1e-4, atol=1e-5)
    weights = trace["encoder.blocks.1.attention.weights"]
    assert weights[0, :, :5, 5:].abs().max() == 0


def test_logits_of_masked_tokens_are_products_with_the_embeddings():
    model = encoder()
    ids, lengths = torch.randint(5, 20, (2, 7)), torch.tensor([7, 4])
    states = model.states(ids, PaddedText(lengths))
    torch.testing.assert_close(model(ids, lengths), F.linear(states, model.embedding.weight))
    assert "head.weight" not in dict(model.named_parameters())


def test_the_logits_of_a_masked_model_can_be_captured():
    model = encoder()
    ids, lengths = torch.randint(5, 20, (1, 7)), torch.tensor([7])
    with torch.no_grad(), capture(model, "logits") as trace:
        logits = model(ids, lengths)
    torch.testing.assert_close(trace["logits"], logits)
