"""The loss of masked text equals what one gets in other ways."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clearhead.data.batch import IGNORE_INDEX, TextBatch
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.batching.masking import MaskedBatch, MaskedTexts, Masking, MaskingConfig
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.store import TextStore
from clearhead.inspection import capture
from clearhead.layers.layout import Documents, PackedText, PaddedText, Plain
from clearhead.models import GPT, Encoder, EncoderConfig, GPTConfig
from clearhead.models.heads import MaskedTokens
from clearhead.tasks.language.task import language_loss
from clearhead.tasks.masked.loss import masked_loss, masked_score
from clearhead.text.tokenizer import BOS, EOS

SIZE, MASK_ID = 50, 4
SHAPE = {
    "layers": 2,
    "width": 16,
    "ffn_width": 32,
    "attention": {"heads": 2, "qk_norm": "rms"},
    "norm": "rms",
    "bias": False,
    "activation": "swiglu",
    "dropout": 0.0,
}


def encoder(predict_from: str = "mask") -> Encoder:
    torch.manual_seed(0)
    head = {"kind": "masked_tokens", "predict_from": predict_from}
    model = Encoder(EncoderConfig.model_validate({**SHAPE, "max_length": 32, "head": head}), SIZE)
    model.head = MaskedTokens(model.config.head, model.config, model.embedding)
    return model.eval()


def batch(causal: float = 0.0) -> MaskedBatch | TextBatch:
    random = np.random.default_rng(0)
    ids = [random.integers(5, SIZE, size=random.integers(2, 25)).tolist() for _ in range(12)]
    masking = Masking(MaskingConfig(causal=causal), MASK_ID, np.arange(SIZE) >= 5)
    documents = DelimitedDocuments(TextStore.of(ids), (BOS, EOS))
    config = TextBatchingConfig(tokens=128, kind="packed", row_length=32)
    return next(MaskedTexts(documents, config, masking).epoch(0))


@pytest.mark.parametrize("predict_from", ["mask", "previous"])
def test_the_loss_of_masked_positions_equals_that_of_all_logits_at_these_positions(predict_from: str):
    model, masked = encoder(predict_from), batch()
    assert isinstance(masked, MaskedBatch)
    logits = model.readout(model.states(masked.inputs, PackedText(masked.segments, masked.positions)))
    labels = torch.full(masked.inputs.shape, IGNORE_INDEX)
    rows, slots = (masked.labels != IGNORE_INDEX).nonzero(as_tuple=True)
    shift = 0 if predict_from == "mask" else 1
    labels[rows, masked.columns[rows, slots].long() - shift] = masked.labels[rows, slots].long()
    full = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE_INDEX, reduction="sum")
    torch.testing.assert_close(masked_loss(model, masked), full)
    score = masked_score(model, [masked])
    assert score.nats == pytest.approx(full.item(), rel=1e-5)
    assert score.correct == int((logits.argmax(-1) == labels).sum())


@pytest.mark.parametrize("predict_from", ["mask", "previous"])
def test_packed_rows_have_the_loss_of_texts_one_at_a_time(predict_from: str):
    model, masked = encoder(predict_from), batch()
    assert isinstance(masked, MaskedBatch)
    total = torch.zeros(())
    shift = 0 if predict_from == "mask" else 1
    for row, segments in enumerate(masked.segments):
        for number in range(1, int(segments.max()) + 1):
            first, last = (segments == number).nonzero()[[0, -1], 0].tolist()
            text = masked.inputs[row, first : last + 1][None]
            logits = model.readout(model.states(text, PaddedText(torch.tensor([text.shape[1]]))))[0]
            for column, label in zip(masked.columns[row].tolist(), masked.labels[row].tolist(), strict=True):
                if first <= column <= last and label != IGNORE_INDEX:
                    total -= logits[column - first - shift].log_softmax(-1)[label]
    torch.testing.assert_close(masked_loss(model, masked), total, rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_same_fused_and_explicit():
    model, masked = encoder(), batch()
    with torch.no_grad():
        fused = masked_loss(model, masked)
        with capture(model, "encoder.blocks.*.attention.weights"):
            explicit = masked_loss(model, masked)
    torch.testing.assert_close(fused, explicit)


def test_causal_batches_of_a_hybrid_have_the_loss_of_a_gpt_with_the_same_weights():
    model, causal = encoder("previous"), batch(causal=1.0)
    assert isinstance(causal, TextBatch)
    gpt = GPT(GPTConfig.model_validate({**SHAPE, "position": "rotary", "context_length": 32}), SIZE).eval()
    gpt.embedding.weight.data = model.embedding.weight.data * model.embedding.scale
    gpt.decoder.load_state_dict(model.encoder.state_dict())
    # The encoder scales its embeddings, but not its readout.
    gpt.readout_weight = torch.nn.Parameter(model.embedding.weight.data)
    torch.testing.assert_close(masked_loss(model, causal), language_loss(gpt, causal))
    ids = torch.randint(5, SIZE, (2, 9))
    torch.testing.assert_close(model.readout(model.states(ids, Plain())), gpt(ids))


def test_cached_steps_of_a_hybrid_equal_one_full_causal_pass():
    model, ids = encoder("previous"), torch.randint(5, SIZE, (2, 9))
    with torch.no_grad():
        full = model.readout(model.states(ids, Plain()))
        state = model.start(ids[:, :4])
        steps = [model.step(ids[:, position], state) for position in range(4, 9)]
    torch.testing.assert_close(torch.stack(steps, 1), full[:, 4:], rtol=1e-4, atol=1e-5)


def test_only_the_slots_of_hidden_tokens_have_gradients_at_the_readout():
    """Padding slots, whose label is ignored, add nothing to the gradient."""
    model, masked = encoder(), batch()
    assert isinstance(masked, MaskedBatch)
    assert (masked.labels == IGNORE_INDEX).any()
    masked_loss(model, masked).backward()
    gradient = model.embedding.weight.grad
    model.zero_grad()
    columns = masked.columns.masked_fill(masked.labels == IGNORE_INDEX, 5)
    other = MaskedBatch(masked.cells, torch.stack([columns, masked.labels]))
    masked_loss(model, other).backward()
    torch.testing.assert_close(gradient, model.embedding.weight.grad)


def test_documents_and_packed_texts_differ_only_in_their_mask():
    masked = batch()
    assert isinstance(masked, MaskedBatch)
    packed = PackedText(masked.segments, masked.positions).mask.dense(32, 32, torch.device("cpu"))
    causal = Documents(masked.segments, masked.positions).mask.dense(32, 32, torch.device("cpu"))
    assert packed is not None
    assert causal is not None
    assert torch.equal(causal, packed & torch.ones(32, 32, dtype=torch.bool).tril())
