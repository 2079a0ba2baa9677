"""The encoder and the bidirectional LSTM equal torch's modules, and padding does not count."""

import pytest
import torch
from torch import nn

from clearhead.inspection import capture
from clearhead.layers.positions import POSITIONS, RELATIVE_POSITIONS
from clearhead.models import BiLSTM, BiLSTMConfig, Encoder, EncoderConfig
from clearhead.models.heads import Classifier, ClassifierConfig
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

VOCABULARY, CLASSES = 30, 3
SMALL = {"layers": 2, "width": 16, "ffn_width": 32, "attention": {"heads": 2}, "max_length": 12}


def encoder(**settings) -> Encoder:
    torch.manual_seed(0)
    config = EncoderConfig.model_validate({**SMALL, "dropout": 0.0, **settings})
    return Encoder(config, VOCABULARY, Classifier(config.head, config.width, CLASSES)).eval()


def bilstm(**settings) -> BiLSTM:
    torch.manual_seed(0)
    config = BiLSTMConfig.model_validate({"width": 8, "layers": 2, "max_length": 12, **settings})
    return BiLSTM(config, VOCABULARY, Classifier(config.head, 2 * config.width, CLASSES)).eval()


def texts(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randint(4, VOCABULARY, (len(lengths), max(lengths))), torch.tensor(lengths)


@pytest.mark.parametrize("position", [*POSITIONS, *RELATIVE_POSITIONS])
@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_padding_does_not_change_what_an_encoder_says(position: str, pooling: str):
    model = encoder(position=position, head={"kind": "classifier", "pooling": pooling})
    ids, lengths = texts(9, 4)
    both = model(ids, lengths)
    torch.testing.assert_close(both[1:], model(ids[1:, :4], lengths[1:]), rtol=1e-4, atol=1e-5)


def test_padding_does_not_change_what_a_bidirectional_lstm_says():
    model, (ids, lengths) = bilstm(), texts(9, 4)
    both = model(ids, lengths)
    torch.testing.assert_close(both[1:], model(ids[1:, :4], lengths[1:]), rtol=1e-4, atol=1e-5)


def test_an_encoder_equals_torchs_transformer_encoder():
    model = encoder(position="none", norm_position="post", activation="relu")
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    reference = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for ours, theirs in zip(model.encoder.blocks, reference.layers, strict=True):
        attention = ours.attention
        with torch.no_grad():
            theirs.self_attn.in_proj_weight.copy_(attention.project.weight)
            theirs.self_attn.in_proj_bias.copy_(attention.project.bias)
        theirs.self_attn.out_proj.load_state_dict(attention.output.state_dict())
        theirs.linear1.load_state_dict(ours.feedforward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feedforward.outer.state_dict())
        theirs.norm1.load_state_dict(ours.attention_residual.norm.state_dict())
        theirs.norm2.load_state_dict(ours.feedforward_residual.norm.state_dict())
    ids, lengths = texts(9, 4)
    padding = torch.arange(9) >= lengths[:, None]
    states = reference(model.embedding(ids), src_key_padding_mask=padding)
    torch.testing.assert_close(model(ids, lengths), model.head(states, lengths), rtol=1e-4, atol=1e-5)


def test_a_bidirectional_lstm_equals_torchs():
    model = bilstm(layers=1)
    ids, lengths = texts(7, 7)
    reference = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
    reference.load_state_dict(model.encoder.layers[0].kernel.state_dict())
    states, _ = reference(model.embedding(ids))
    torch.testing.assert_close(model(ids, lengths), model.head.output(states.amax(1)), rtol=1e-4, atol=1e-5)


def test_without_positions_an_encoder_ignores_order_and_with_them_it_does_not():
    ids, lengths = texts(9)
    shuffled = ids[:, torch.randperm(9)]
    none, rotary = encoder(position="none"), encoder(position="rotary")
    torch.testing.assert_close(none(ids, lengths), none(shuffled, lengths), rtol=1e-4, atol=1e-5)
    assert (rotary(ids, lengths) - rotary(shuffled, lengths)).abs().max() > 1e-4


def test_attention_of_an_encoder_and_gates_of_an_lstm_are_captured():
    ids, lengths = texts(9, 4)
    model = encoder()
    fused = model(ids, lengths)
    with capture(model, ["encoder.*.weights"]) as trace:
        torch.testing.assert_close(model(ids, lengths), fused, rtol=1e-4, atol=1e-5)
    weights = trace["encoder.blocks.1.attention.weights"]
    assert weights.shape == (2, 2, 9, 9)
    assert float(weights[1, :, :, 4:].sum()) == 0  # padding is not attended to
    recurrent = bilstm()
    fused = recurrent(ids, lengths)
    with capture(recurrent, ["encoder.layers.0.*"]) as trace:
        torch.testing.assert_close(recurrent(ids, lengths), fused, rtol=1e-4, atol=1e-5)
    assert trace["encoder.layers.0.forget_gate"].shape == (2, 2, 9, 8)


def test_a_processor_keeps_tokenizer_and_labels(tmp_path):
    tokenizer = Tokenizer.train(["a fine film"], TokenizerConfig(kind="word", vocabulary=10))
    processor = TextProcessor(tokenizer, ("neg", "pos"))
    processor.save(tmp_path / TextProcessor.FILE)
    loaded = TextProcessor.load(tmp_path / TextProcessor.FILE)
    assert (loaded.labels, loaded.fingerprint) == (processor.labels, processor.fingerprint)
    assert loaded.tokenizer.encode("fine film") == tokenizer.encode("fine film")


def test_dropout_of_the_head_is_off_after_training():
    # So wide that two passes do not drop the same values by chance.
    head = Classifier(ClassifierConfig(dropout=0.5), 256, 2)
    states, lengths = torch.randn(1, 3, 256), torch.tensor([3])
    assert not torch.equal(head(states, lengths), head(states, lengths))
    head.eval()
    assert torch.equal(head(states, lengths), head(states, lengths))
