"""Recurrent translators explained: alignment, gates over time, and the gradient that reaches the source."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.pictures.draw import views
from clearhead.models import Seq2Seq, Seq2SeqConfig, Translator, TranslatorConfig
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.options import SearchConfig
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TEXT, TARGET = "one two three four", "1 2 3"
SMALL = {"width": 8, "max_length": 12}


def make_model(cell: str = "lstm", attend: str = "before", **changes: object) -> TranslationModel:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train([TEXT, "1 2 3 4"], TokenizerConfig(kind="word"))
    config = Seq2SeqConfig.model_validate({**SMALL, "cell": cell, "attend": attend, **changes})
    model = Seq2Seq(config, tokenizer.size)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return TranslationModel(model, tokenizer, [Direction("en", "de")], SearchConfig(beam=2))


@pytest.mark.parametrize(("cell", "attend"), [("gru", "before"), ("lstm", "after"), ("rnn", "none")])
def test_every_view_of_a_recurrent_model_is_drawn(cell, attend):
    explanation = make_model(cell, attend, layers=2).explain(TEXT, target=TARGET)
    assert explanation.difference < 1e-5
    attention = [] if attend == "none" else ["cross", "atlas", "head", "row"]
    assert views(explanation) == [*attention, "gates", "gradient", "neighbours"]
    for view in views(explanation):
        picture = explanation.picture(view)
        assert picture.content("svg")
        assert TEXT in picture.caption


def test_the_default_picture_without_attention_shows_the_gates():
    picture = make_model(attend="none").explain(TEXT).picture()
    assert "the gates of recurrent layers at each token" in picture.caption


def test_the_gates_picture_describes_the_captured_gates():
    explanation = make_model("gru").explain(TEXT, target=TARGET)
    alt = explanation.picture("gates").alt
    backward = explanation["encoder.layers.0.reset_gate"][1].mean()
    update = explanation["decoder.layers.0.update_gate"].mean()
    assert "encoder.layers.0 forward, encoder.layers.0 backward, decoder.layers.0" in alt
    assert f"reset gate {backward:.2f}" in alt
    assert alt.endswith(f"update gate {update:.2f}.")


def test_a_layer_of_the_gates_can_be_chosen():
    explanation = make_model(layers=2).explain(TEXT)
    assert "decoder.layers.1" in explanation.picture("gates").alt
    assert "decoder.layers.0" in explanation.picture("gates", layer=0).alt
    with pytest.raises(SettingsError, match="layer: 2 is out of range; there are layers 0 to 1"):
        explanation.picture("gates", layer=2)


def numeric_norms(model: TranslationModel, row: int, column: int, step: float = 1e-3) -> float:
    """The same gradient by differences of log-probabilities, one number of the embedding at a time."""
    explanation = model.explain(TEXT, target=TARGET)
    following = explanation.target[row].next
    token = explanation.source[column].id
    embedding = model.model.source_embedding

    def log_prob(change: Tensor) -> float:
        with torch.no_grad():
            original = embedding.weight[token].clone()
            embedding.weight[token] += change / embedding.scale
            found = float(explanation.run().double().log_softmax(-1)[row, following])
            embedding.weight[token] = original
        return found

    units = step * torch.eye(embedding.weight.shape[1])
    differences = [(log_prob(unit) - log_prob(-unit)) / (2 * step) for unit in units]
    return math.hypot(*differences)


@pytest.mark.parametrize("attend", ["before", "none"])
def test_gradients_at_the_source_equal_differences(attend):
    model = make_model(attend=attend, tied="none")
    gradients = Summaries(model.explain(TEXT, target=TARGET)).gradients
    assert gradients.shape == (4, 5)
    for row, column in ((0, 0), (2, 1), (3, 3)):
        assert float(gradients[row, column]) == pytest.approx(numeric_norms(model, row, column), rel=0.02)


def test_gradients_work_for_a_transformer_too_and_leave_no_trace():
    torch.manual_seed(0)
    config = {"width": 8, "ffn_width": 8, "attention": {"heads": 2}, "encoder_layers": 1, "decoder_layers": 1}
    recurrent = make_model()
    model = Translator(
        TranslatorConfig.model_validate({**config, "max_length": 12}), recurrent.tokenizer.size
    )
    translator = TranslationModel(model, recurrent.tokenizer, recurrent.directions, recurrent.search)
    explanation = translator.explain(TEXT, target=TARGET)
    assert Summaries(explanation).gradients.shape == (4, 5)
    assert all(parameter.grad is None for parameter in model.parameters())
