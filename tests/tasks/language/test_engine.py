"""Decoding uses a packed copy: the caller's model is never changed, and its weights stay in charge."""

import pytest
import torch

from clearhead.checkpoint import set_weights, weights
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.language.model import LanguageModel
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TEXT = "to be or not to be, that is the question: whether 'tis nobler in the mind to suffer\n" * 3


def wide_model(seed: int = 0) -> LanguageModel:
    """A model wide enough that its matrices are packed."""
    torch.manual_seed(seed)
    tokenizer = Tokenizer.train([TEXT], TokenizerConfig(kind="character", vocabulary=300, normalize=False))
    shape = {"width": 512, "ffn_width": 1024, "layers": 1, "attention": {"heads": 2}, "context_length": 64}
    return LanguageModel(GPT(GPTConfig.model_validate(shape), tokenizer.size), tokenizer)


def test_decoding_leaves_the_model_as_it_was():
    language = wide_model()
    model = language.model
    kinds = [type(part) for part in model.modules()]
    layout = [(parameter.data_ptr(), parameter.stride()) for parameter in model.parameters()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    language.generate("to be")
    assert language.model is model
    assert [type(part) for part in model.modules()] == kinds
    assert [(parameter.data_ptr(), parameter.stride()) for parameter in model.parameters()] == layout
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.readout_weight is model.embedding.weight


def test_new_weights_change_what_a_model_generates():
    language, other = wide_model(), wide_model(seed=1)
    first, expected = (one.generate("to be").text for one in (language, other))
    assert first != expected
    set_weights(language.model, weights(other.model), "here")
    assert language.generate("to be").text == expected


@pytest.mark.accel
def test_steps_run_on_a_packed_copy_or_on_the_model_itself_while_it_is_tapped():
    language, calls = wide_model(), []
    assert language.engine is not language.model
    assert language.engine is language.engine
    handle = language.model.decoder.register_forward_hook(lambda *args: calls.append(args))
    assert language.engine is language.model
    language.generate("to be")
    handle.remove()
    assert calls
    assert language.engine is not language.model
