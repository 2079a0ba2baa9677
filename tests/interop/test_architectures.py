"""Which GPTs have a Hugging Face architecture, and what is said of the others."""

import pytest

from clearhead.errors import ModelError
from clearhead.interop.architectures import architecture_for
from clearhead.models import EncoderConfig, GPTConfig, Seq2SeqConfig, ViTConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"preset": "shakespeare"},
            "model.activation: 'squared_relu' cannot be exported: the closest architecture of Hugging Face, "
            "qwen3, has 'swiglu'; train a model with --set model.activation=swiglu",
        ),
        ({"position": "alibi"}, "model.position: 'alibi' cannot be exported: "),
        (
            {"bias": False},
            "model.bias: False cannot be exported: the closest architecture of Hugging Face, gpt2, has True; "
            "train a model with --set model.bias=true",
        ),
        (
            {"attention": {"heads": 12, "score": "cosine"}},
            "model.attention.score: 'cosine' cannot be exported: ",
        ),
    ],
)
def test_a_model_without_an_architecture_is_refused_with_the_setting_to_change(settings, message):
    with pytest.raises(ModelError) as caught:
        architecture_for(GPTConfig.model_validate(settings))
    assert str(caught.value).startswith(message)
    assert "; train a model with --set model." in str(caught.value)


def test_a_family_without_an_architecture_is_named():
    with pytest.raises(ModelError, match=r"model\.kind: Hugging Face has no architecture for a seq2seq"):
        architecture_for(Seq2SeqConfig())


BERT = {
    "position": "learned",
    "norm_position": "post",
    "norm_epsilon": 1e-12,
    "activation": "gelu",
    "embedding_norm": True,
}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            EncoderConfig.model_validate({**BERT, "token_types": 2}),
            "model.head.pooling: 'mean' cannot be exported: the closest architecture of Hugging Face, bert, "
            'has \'first\'; train a model with --set model.head=\'{kind = "classifier", pooling = "first", '
            'pooler = "tanh"}\'',
        ),
        (
            EncoderConfig.model_validate({**BERT, "head": {"kind": "masked_tokens"}}),
            "model.head.transform: False cannot be exported: the closest architecture of Hugging Face, "
            'distilbert, has True; train a model with --set model.head=\'{kind = "masked_tokens", '
            'predict_from = "mask", transform = true}\'',
        ),
        (
            # DistilBERT's norms all have the same epsilon.
            EncoderConfig.model_validate(
                {**BERT, "norm_epsilon": 1e-5, "head": {"kind": "masked_tokens", "transform": True}}
            ),
            "model.token_types: 0 cannot be exported: the closest architecture of Hugging Face, bert, has 1; "
            "train a model with --set model.token_types=1",
        ),
        (
            ViTConfig.model_validate({"patches": {"kind": "convolutional"}, "activation": "gelu"}),
            "model.patches.kind: 'convolutional' cannot be exported: the closest architecture of Hugging "
            "Face, vit, has 'linear'; train a model with --set model.patches='{kind = \"linear\", size = 4}'",
        ),
    ],
)
def test_a_head_or_patches_that_no_architecture_has_are_replaced_as_a_whole(config, message):
    with pytest.raises(ModelError) as caught:
        architecture_for(config)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("head", "token_types", "expected"),
    [
        ({"kind": "masked_tokens", "transform": True}, 2, "BertForMaskedLM"),
        ({"kind": "masked_tokens", "transform": True}, 0, "DistilBertForMaskedLM"),
        ({"kind": "classifier", "pooling": "first", "pooler": "tanh"}, 2, "BertForSequenceClassification"),
        (
            {"kind": "classifier", "pooling": "first", "pooler": "relu"},
            0,
            "DistilBertForSequenceClassification",
        ),
        ({"kind": "span", "order": "question_first"}, 2, "BertForQuestionAnswering"),
    ],
)
def test_an_encoder_with_the_settings_of_bert_is_one(head, token_types, expected):
    config = EncoderConfig.model_validate({**BERT, "token_types": token_types, "head": head})
    assert architecture_for(config).class_name == expected
