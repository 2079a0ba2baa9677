"""Which models another library has; what it has not is named."""

import pytest

from clearhead.errors import ModelError
from clearhead.interop.architectures import family_for
from clearhead.models import GPTConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"preset": "shakespeare"},
            "model.activation: 'squared_relu' has no place in their library: the nearest models there, "
            "qwen3, have 'swiglu'; a model trained with --set model.activation=swiglu can go there",
        ),
        ({"position": "alibi"}, "model.position: 'alibi' has no place in their library"),
        (
            {"bias": False},
            "model.bias: False has no place in their library: the nearest models there, gpt2, "
            "have True; a model trained with --set model.bias=true can go there",
        ),
        ({"attention": {"heads": 12, "score": "cosine"}}, "model.attention.score: 'cosine' has no place"),
    ],
)
def test_models_that_their_library_does_not_have_are_refused(settings, message):
    with pytest.raises(ModelError) as caught:
        family_for(GPTConfig.model_validate(settings))
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(" can go there")
