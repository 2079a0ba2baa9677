"""An explanation captures the pass behind an output without changing the output."""

import pytest
import torch

import clearhead
from clearhead.errors import SettingsError, TextError
from clearhead.inspection import Mute, SetRow, Swap, intervene
from clearhead.inspection.explanation import text_tokens
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.load import load
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

TEXT = "three one four one"


@pytest.fixture(scope="module")
def model(many_model):
    return load(many_model)


def make_language(max_length: int = 32, kind: str = "bytes") -> LanguageModel:
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(["to be or not to be\n"], TokenizerConfig(kind=kind, vocabulary=280))
    small = {
        "width": 16,
        "ffn_width": 24,
        "attention": {"heads": 2},
        "layers": 2,
        "context_length": max_length,
    }
    model = GPT(GPTConfig.model_validate(small | {"init": "xavier"}), tokenizer.size)
    torch.nn.init.normal_(model.embedding.weight)
    return LanguageModel(model, tokenizer)


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 3, "nbest": 2}, {"prefix": "7"}])
def test_the_explained_output_is_the_translation(model, options):
    found = model.translate(TEXT, to="de", **options)
    explanation = model.explain(TEXT, to="de", **options)
    assert explanation.output == found.text
    assert [str(one) for one in explanation.found.nbest] == [str(one) for one in found.nbest]
    assert explanation.sum_log_prob == pytest.approx(found.sum_log_prob, abs=1e-4)


def test_the_tokens_of_both_sides_are_the_axes_of_the_tensors(model):
    explanation = model.explain(TEXT, to="de")
    assert [token.piece for token in explanation.source] == ["<2de>", "three", "one", "four", "one", "</s>"]
    assert [token.word for token in explanation.source] == [None, 0, 1, 2, 3, None]
    assert [token.piece for token in explanation.target] == ["<s>", "3", "1", "4", "1"]
    assert [token.generated for token in explanation.target] == [False, True, True, True, True]
    ids = [token.id for token in explanation.target]
    assert [token.next for token in explanation.target] == [*ids[1:], EOS]
    assert explanation["decoder.blocks.0.cross_attention.weights"].shape == (2, 5, 6)
    assert explanation["logits"].shape == (5, model.tokenizer.size)
    log_probs = explanation["logits"].log_softmax(-1)
    for position, token in enumerate(explanation.target):
        assert token.log_prob == pytest.approx(log_probs[position, token.next].item())


def test_tokens_of_a_word_share_its_number_and_special_tokens_have_none():
    tokenizer = Tokenizer.train(["low lower lowest\n"] * 3, TokenizerConfig(kind="bpe", vocabulary=16))
    ids = tokenizer.encode("lower low")
    words = [token.word for token in text_tokens(tokenizer, [BOS, *ids])]
    assert words == [None, *tokenizer.word_numbers("lower low")] == [None, 0, 0, 1]


def test_captured_logits_equal_those_of_cached_steps(model):
    explanation = model.explain(TEXT, to="de")
    assert 0 <= explanation.difference < 1e-5
    source = torch.tensor([[token.id for token in explanation.source]])
    target = torch.tensor([[token.id for token in explanation.target]])
    state = model.model.start(source, torch.tensor([source.shape[1]]))
    with torch.no_grad():
        steps = [model.model.step(target[:, position], state)[0] for position in range(target.shape[1])]
    torch.testing.assert_close(explanation["logits"], torch.stack(steps), atol=1e-4, rtol=1e-4)


def test_only_named_tensors_are_kept(model):
    explanation = model.explain(TEXT, to="fr", names=["*.weights"])
    assert sorted(explanation.trace) == [
        "decoder.blocks.0.attention.weights",
        "decoder.blocks.0.cross_attention.weights",
        "encoder.blocks.0.attention.weights",
    ]
    with pytest.raises(SettingsError, match=r"wieghts: no tensor of the model has this name"):
        model.explain(TEXT, to="fr", names=["*.wieghts"])


def test_a_given_target_replaces_the_translation(model):
    explanation = model.explain(TEXT, to="de", target="3 1 4")
    assert explanation.found is None
    assert explanation.tree is None
    assert explanation.output == "3 1 4"
    assert not any(token.generated for token in explanation.target)
    assert explanation.sum_log_prob < model.explain(TEXT, to="de").sum_log_prob


def test_the_best_path_of_the_tree_is_the_output(model):
    explanation = model.explain(TEXT, to="de", beam=3)
    best = [node.token for node in explanation.tree.nodes if node.best]
    assert best == [token.next for token in explanation.target]


def test_a_translation_can_be_forced_to_start_with_tokens_of_the_tree(model):
    tree = model.explain(TEXT, to="de").tree
    other = next(number for number, node in enumerate(tree.nodes) if node.step == 1 and not node.best)
    forced = tree.tokens(other)
    explanation = model.explain(TEXT, to="de", prefix=forced)
    assert [token.id for token in explanation.target][1:3] == forced
    assert explanation.output == model.translate(TEXT, to="de", prefix=forced).text
    with pytest.raises(SettingsError, match=f"prefix: {BOS} is not the id of a text token"):
        model.translate(TEXT, to="de", prefix=[BOS])


def test_interventions_apply_to_the_search_and_to_the_captured_pass(model):
    two = model.tokenizer.id("two")
    with intervene(model.model, {"source_embedding.token_embeddings": Swap({1: two, 2: two})}):
        explanation = model.explain(TEXT, to="de")
    assert explanation.output == "2 2 4 1"
    assert explanation.difference < 1e-5
    assert model.explain(TEXT, to="de").output == "3 1 4 1"


def test_a_set_row_and_muted_heads_change_the_translation(model):
    changes = {"decoder.*.cross_attention.head_output": Mute([0, 1])}
    with clearhead.intervene(model.model, changes):
        assert model.explain(TEXT, to="de").output != "3 1 4 1"
    changes = {"decoder.blocks.0.cross_attention.weights": SetRow(0, [0, 0, 0, 1, 0, 0])}
    with clearhead.intervene(model.model, changes):
        explanation = model.explain(TEXT, to="de")
    assert explanation.output.startswith("4")
    assert explanation["decoder.blocks.0.cross_attention.weights"][0, 0].tolist() == [0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("text", ["", "  ", "\u200b"])
def test_a_blank_text_cannot_be_explained(model, text):
    with pytest.raises(TextError, match="text: is blank; give a sentence to explain"):
        model.explain(text, to="de")


@pytest.mark.parametrize("text", [["three", "one"], 3, None])
def test_explain_takes_one_text(model, text):
    for one in (model, make_language()):
        with pytest.raises(TextError, match="pass a str"):
            one.explain(text)


def test_a_text_that_is_too_long_is_an_error(model):
    with pytest.raises(TextError, match="but the model takes at most 14; split it"):
        model.explain("one " * 10_000, to="de")
    with pytest.raises(TextError, match="but the model takes at most 14; split it"):
        model.explain("one", to="de", target="1 " * 10_000)
    with pytest.raises(TextError, match="10000 tokens exceed the context of 32; shorten"):
        make_language(kind="character").explain("t" * 10_000)


@pytest.mark.parametrize("options", [{}, {"temperature": 1.5, "seed": 4, "top_k": 9}])
def test_the_explained_output_is_the_continuation(options):
    language = make_language()
    explanation = language.explain("to be", tokens=6, **options)
    found = language.generate("to be", tokens=6, **{"temperature": 0, **options})
    assert explanation.output == found.text
    generated = [token for token in explanation.target if token.generated]
    assert tuple(token.piece for token in generated) == found.tokens
    before = len(explanation.target) - len(generated)
    log_probs = [token.log_prob for token in explanation.target[before - 1 : -1]]
    assert log_probs == pytest.approx(found.log_probs[: len(log_probs)], abs=1e-4)


def test_without_generation_the_last_token_has_no_next():
    language = make_language()
    explanation = language.explain("to be or not")
    assert explanation.output == ""
    assert explanation.source == ()
    assert explanation.target[-1].next is None
    assert explanation.target[-1].log_prob is None
    assert explanation["logits"].shape[0] == len(explanation.target)
    assert explanation.difference < 1e-5
    assert explanation.settings["tokens"] == 0


def test_the_continuation_fits_into_the_context():
    language = make_language(max_length=8, kind="character")
    assert len(language.explain("to be", tokens=50).target) <= 8
    assert len(language.explain("to be or", tokens=50).target) == 8


def test_the_bytes_of_a_letter_are_one_word_and_readable():
    tokenizer = Tokenizer.train(["low lower lowest\n"] * 3, TokenizerConfig(vocabulary=600))
    tokens = text_tokens(tokenizer, tokenizer.encode("low é漢 low"))
    assert [token.piece for token in tokens] == ["▁low", "▁", "é₁", "é₂", "漢₁", "漢₂", "漢₃", "▁low"]
    assert [token.word for token in tokens] == [0, 1, 1, 1, 1, 1, 1, 2]
    # Tokens that do not stand side by side in a text are not put together.
    assert tokenizer.piece(tokenizer.encode("é")[1]) == "\\xc3"
