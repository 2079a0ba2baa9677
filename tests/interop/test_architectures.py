"""Which GPTs have a Hugging Face architecture, and what is said of the others."""

import pytest

from clearhead.errors import ModelError
from clearhead.interop.architectures import architecture_for
from clearhead.models import GPTConfig


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
