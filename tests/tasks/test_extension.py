"""A model with an extended vocabulary gives old tokens the logits that they had."""

from pathlib import Path

import pytest
import torch

from clearhead import load
from clearhead.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from clearhead.errors import ModelError
from clearhead.models import Translator, TranslatorConfig
from clearhead.tasks.extension import extend_model
from clearhead.tasks.translation.pair import pair_logits
from clearhead.tasks.zoo import find
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

CZECH = ["Dva mladí muži jsou venku poblíž keřů.", "Malá dívka leze do dřevěného domku."] * 20
ENGLISH = ["two young men are outside near bushes", "a little girl climbs into a wooden house"] * 20


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_logits_of_old_tokens_stay(tied: str):
    tokenizer = Tokenizer.train(ENGLISH, TokenizerConfig(vocabulary=80))
    config = TranslatorConfig.model_validate({"preset": "tiny", "tied": tied, "dropout": 0.0})
    old = Checkpoint(Translator(config, tokenizer.size).eval(), tokenizer, {"kind": "translation"})
    new = extend_model(old, CZECH, ["<2cs>"])
    assert new.processor.size > tokenizer.size + 256
    source, target = (tokenizer.encode(text) for text in ENGLISH[:2])
    before, after = (pair_logits(one.model, source, target) for one in (old, new))
    assert after.shape[1] == new.processor.size
    torch.testing.assert_close(after[:, : tokenizer.size], before)
    assert len(new.model.readout_weight.unique(dim=0)) == new.processor.size


def test_extending_twice_gives_the_same_weights():
    tokenizer = Tokenizer.train(ENGLISH, TokenizerConfig(vocabulary=80))
    config = TranslatorConfig.model_validate({"preset": "tiny"})
    old = Checkpoint(Translator(config, tokenizer.size), tokenizer, {"kind": "translation"})
    first, second = (extend_model(old, CZECH).model.readout_weight for _ in range(2))
    assert torch.equal(first, second)


def test_an_extended_model_is_saved_and_translates(tmp_path: Path):
    before, extended = load("en-fr"), extend_model(load_checkpoint(find("en-fr")[0]), CZECH, ["<2cs>"])
    save_checkpoint(tmp_path / "new", extended.model, extended.processor, extended.settings)
    after = load(tmp_path / "new")
    assert after.tokenizer.size > before.tokenizer.size
    texts = ["Good morning.", "Where is the station?", "I would like to know what happened."]
    for to in ("fr", "de"):
        expected = [one.text for one in load("en-de-fr").translate(texts, to)]
        assert [one.text for one in after.translate(texts, to)] == expected


def test_a_model_without_a_tokenizer_is_refused():
    with pytest.raises(ModelError, match="has no vocabulary of text alone"):
        extend_model(Checkpoint(torch.nn.Linear(1, 1), None, {}), CZECH)
