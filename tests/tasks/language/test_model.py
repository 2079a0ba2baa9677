"""A language model continues texts, alone as beside others, streamed as at once."""

import pytest
import torch

from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.explorer.distribution import Cut
from clearhead.explorer.steps import next_token
from clearhead.layers.attention import AttentionConfig
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.language.model import LanguageModel, frame, lead
from clearhead.tasks.language.sliding_window import Sliding
from clearhead.tasks.load import load, load_for
from clearhead.text.tokenizer import END, PAD, START, UNKNOWN, Tokenizer, TokenizerConfig

TEXT = "to be or not to be, that is the question: whether 'tis nobler in the mind to suffer\n" * 3
PROMPTS = ["to be", "the question whether", "n", "or not to be, that"]


def make_language(max_length: int = 64, kind: str = "character", **changes: object) -> LanguageModel:
    torch.manual_seed(3)
    tokenizer = Tokenizer.train([TEXT], TokenizerConfig(kind=kind, vocabulary=300, normalize=False))
    small = {"width": 16, "ffn_width": 24, "attention": {"heads": 2}, "layers": 2, "max_length": max_length}
    config = GPTConfig.model_validate(small | {"tied": "none", "init": "xavier"} | changes)
    model = GPT(config, tokenizer.size)
    torch.nn.init.normal_(model.embedding.weight)
    torch.nn.init.normal_(model.readout_weight, std=0.5)
    with torch.no_grad():  # special tokens are never said
        model.decoder.norm.bias[0] = 20
        model.readout_weight[:, 0] = 0
        model.readout_weight[: len(tokenizer.specials), 0] = -5
    return LanguageModel(model, tokenizer)


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    return make_language()


@torch.no_grad()
def uncached(language: LanguageModel, prompt: str, tokens: int) -> list[int]:
    """Greedy tokens by full passes alone; where the context is full, its older half is forgotten."""
    seen, said, max_length = language.encode(prompt)[-language.max_length :], [], language.max_length
    for _ in range(tokens):
        logits = language.model(torch.tensor([seen]))[0, -1]
        said.append(int(logits.argmax()))
        if said[-1] == END:
            break
        seen = (seen[-(max_length // 2) :] if len(seen) == max_length else seen) + said[-1:]
    return said


@pytest.mark.parametrize("max_length", [64, 12, 7, 2])
def test_greedy_text_equals_full_passes_even_where_the_context_slides(max_length):
    language = make_language(max_length, position="rotary")
    for prompt in PROMPTS[:2]:
        tokens = uncached(language, prompt, tokens=25)
        text = language.tokenizer.decode(tokens)
        assert language.generate(prompt, tokens=25, temperature=0).text == text


@pytest.mark.parametrize("max_length", [64, 12])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("score", ["scaled", "location"])
def test_prompts_together_give_what_each_gives_alone(max_length, temperature, score):
    language = make_language(max_length, attention={"heads": 2, "score": score})
    options = {"tokens": 15, "temperature": temperature, "repetition_penalty": 1.2}
    batches_per_step = language.generate(PROMPTS, **options, seed=5)
    for number, (prompt, one) in enumerate(zip(PROMPTS, batches_per_step, strict=True)):
        alone = language.generate(prompt, **options, seed=5 + number)
        assert (one.text, one.ended) == (alone.text, alone.ended)
        assert one.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-4)


@pytest.mark.parametrize("kind", ["character", "bytes", "bpe"])
@pytest.mark.parametrize("stop", [(), ("e", "th"), ("never met",)])
def test_streamed_text_is_the_text(kind, stop):
    language = make_language(kind=kind)
    options = {"tokens": 30, "temperature": 1.2, "samples": 3, "stop": stop, "seed": 1}
    whole = language.generate("to be", **options)
    told = ["", "", ""]
    for sample, text in language.stream("to be", **options):
        told[sample] += text
    assert told == [one.text for one in whole.samples]
    for one in whole.samples:
        assert not any(sign in one.text for sign in stop)


def test_a_stop_string_ends_a_text_before_it(language):
    free = language.generate("to be", tokens=60, temperature=0)
    assert free.ended == "length"
    stop = free.text[20:23]
    stopped = language.generate("to be", tokens=60, temperature=0, stop=stop)
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.ended == "stop"


def test_a_stop_string_that_is_never_met_changes_nothing(language):
    free = language.generate("to be", tokens=30)
    assert language.generate("to be", tokens=30, stop="%%%").text == free.text


def test_samples_differ_and_each_comes_again_with_its_seed(language):
    found = language.generate("to be", tokens=30, samples=3, seed=7, temperature=1.5)
    assert len({one.text for one in found.samples}) == 3
    assert found.text == found.samples[0].text
    for number, one in enumerate(found.samples):
        assert language.generate("to be", tokens=30, seed=7 + number, temperature=1.5).text == one.text


def test_log_probabilities_are_those_of_a_full_pass(language):
    found = language.generate("to be", tokens=20, temperature=1.0, logprobs=3)
    ids = language.encode("to be") + language.tokenizer.encode(found.text)
    with torch.no_grad():
        expected = language.model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)[4:]
    assert found.ended == "length"
    log_probs = expected.gather(1, torch.tensor(ids[5:])[:, None])[:, 0].tolist()
    assert found.log_probabilities == pytest.approx(log_probs, abs=1e-4)
    assert found.log_probability == pytest.approx(sum(log_probs), abs=1e-3)
    for best, row in zip(found.alternatives, expected, strict=True):
        assert [log_prob for _, log_prob in best] == pytest.approx(row.topk(3).values.tolist(), abs=1e-4)
        assert len(best) == 3
    assert "".join(found.tokens).replace("▁", " ").replace("↵", "\n") == found.text


def make_sign_lover() -> LanguageModel:
    """A model that would say little else than signs that are no text."""
    language = make_language()
    with torch.no_grad():
        language.model.readout_weight[[PAD, UNKNOWN, START], 0] = 1
    return language


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_page_keeps_for_drawing_what_can_be_drawn(temperature):
    language = make_sign_lover()
    told = next_token(language, "to be", [], None, Cut(temperature=temperature, top_k=2), seed=0)
    kept = [one["id"] for one in told["top"] if one["kept"]]
    assert told["top"][0]["id"] in (PAD, UNKNOWN, START)  # the model's own probabilities are shown
    assert len(kept) == told["kept"] == (2 if temperature else 1)
    assert told["next"]["id"] in kept


@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_signs_that_are_no_text_are_never_said(temperature):
    language = make_sign_lover()
    many = language.tokenizer.size
    found = language.generate("to be", tokens=40, temperature=temperature, samples=4, logprobs=many)
    for one in found.samples:
        assert len(one.text) == len(one.tokens)
        assert {len(best) for best in one.alternatives} == {many - 3}
        assert all(log_prob > -torch.inf for best in one.alternatives for _, log_prob in best)


def test_a_repetition_penalty_sees_the_prompt(language):
    with torch.no_grad():
        logits = language.model(torch.tensor([language.encode("n")]))[0, -1]
    best = int(logits.argmax())
    prompt = language.tokenizer.decode([best]) + "n"
    free = language.generate(prompt, tokens=1, temperature=0)
    bent = language.generate(prompt, tokens=1, temperature=0, repetition_penalty=100.0)
    used = set(prompt)
    assert bent.text not in used
    assert free.prompt == bent.prompt == prompt


def test_the_narrowest_draw_is_greedy(language):
    greedy = language.generate("to be", tokens=30, temperature=0).text
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert language.generate("to be", tokens=30, temperature=1.0, **options).text == greedy


def test_a_prompt_longer_than_the_context_is_cut_and_that_is_told():
    language = make_language(max_length=20)
    found = language.generate(TEXT[:50], tokens=5, temperature=0)
    assert found.unseen == 30
    assert found.text == language.generate(TEXT[30:50], tokens=5, temperature=0).text
    cut = language.generate(TEXT[:50], tokens=5, temperature=0, overflow="cut")
    assert cut.unseen == 50 - (20 - 5 + 1)
    assert cut.prompt == TEXT[:50]
    short = language.generate("to be", tokens=16, temperature=0, overflow="cut")
    assert short.unseen == 0
    with pytest.raises(SettingsError, match="tokens: 21 do not fit into the model's context of 20; ask"):
        language.generate("to be", tokens=21, overflow="cut")


def test_a_text_that_the_model_ends_is_ended_by_it():
    language = make_language()
    with torch.no_grad():
        language.model.readout_weight[END, 0] = 0
    found = language.generate("to be", tokens=400, temperature=1.0)
    assert found.ended == "end"
    assert len(found.log_probabilities) == len(found.tokens) + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "tokens: 0 should be at least 1"),
        ({"tokens": 10**11}, "tokens: 100000000000 should be at most 1,000,000; ask several times"),
        ({"samples": 0}, "samples: 0 should be at least 1"),
        ({"samples": 10**6}, "samples: 1000000 should be at most 1,000; ask several times"),
        ({"temperature": -1.0}, "temperature: -1.0 should be 0, which takes the best token, or more"),
        ({"temperature": float("nan")}, "temperature: nan should be 0, which takes the best token, or more"),
        ({"temperature": float("inf")}, "temperature: inf should be finite"),
        ({"top_p": 0.0}, "top_p: 0.0 should be greater than 0 and at most 1"),
        ({"top_k": 0}, "top_k: 0 should be at least 1"),
        ({"min_p": 2.0}, "min_p: 2.0 should be from 0 to 1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty: 0.0 should be from 0.01 to 100"),
        ({"stop": ["a", ""]}, "stop: is empty, and everything begins with that; leave it out"),
        ({"seed": -1}, "seed: -1 should be from 0 to"),
        ({"overflow": "wrap"}, "overflow: 'wrap' is not one of slide, cut"),
    ],
)
def test_wrong_wishes_are_named(language, options, message):
    with pytest.raises(SettingsError) as caught:
        language.generate("to be", **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("to\0be", "prompt 1: character 3 is NUL; take it out"),
        (
            "to € be",
            "prompt 1: character 4, '€' (U+20AC), is not in the model's vocabulary; leave it out",
        ),
    ],
)
def test_prompts_that_cannot_be_read_are_named(language, prompt, message):
    with pytest.raises(TextError) as caught:
        language.generate(prompt)
    assert str(caught.value) == message


def test_an_empty_prompt_begins_a_text(language):
    assert language.encode("") == [START]
    assert language.generate("", tokens=5).prompt == ""


def test_texts_begin_with_a_sign_where_they_did_in_training(language):
    assert lead(language.tokenizer, {"batches": {"kind": "packed"}}) == [START]
    assert lead(language.tokenizer, {"batches": {"kind": "crops"}}) == []
    assert lead(language.tokenizer, {}) == []


def test_prompts_are_set_into_the_frame_of_training_and_answered():
    asking = make_language()
    asking.frame = frame({"data": {"template": "to {prompt}: {answer}\n"}})
    assert asking.frame == "to {prompt}: "
    plain = make_language()
    answer = asking.generate("be", tokens=20, temperature=0)
    assert str(answer) == answer.text == plain.generate("to be: ", tokens=20, temperature=0).text
    assert answer.prompt == "be"
    assert frame({"data": {"train": ["x.txt"]}}) is None
    assert frame({}) is None


def test_laying_matrices_for_steps_changes_no_value(language):
    torch.manual_seed(0)
    model = GPT(GPTConfig(width=16, attention=AttentionConfig(heads=2)), language.tokenizer.size)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    LanguageModel(model, language.tokenizer)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.readout_weight is model.embedding.weight


def test_the_context_of_a_row_slides_when_that_row_is_full():
    language = make_language(max_length=8)
    sliding = Sliding(language.model, room=30)
    state = sliding.start([[5] * 9, [6] * 4])
    assert state.lengths.tolist() == [7, 3]
    for _ in range(2):
        sliding.step(torch.tensor([7, 7]), state)
    assert state.lengths.tolist() == [5, 5]


def test_a_saved_model_is_loaded_by_its_kind(gpt_model):
    loaded = load(gpt_model)
    assert isinstance(loaded, LanguageModel)
    assert (
        loaded.generate("to be", tokens=20).text
        == load_for("language", gpt_model).generate("to be", tokens=20).text
    )
    with pytest.raises(ModelError, match="this model continues texts, it does not translate"):
        load_for("translation", gpt_model)


def test_a_translator_continues_no_texts(number_model):
    with pytest.raises(ModelError, match="this model translates, it continues no texts; use clearhead trans"):
        load_for("language", number_model)
