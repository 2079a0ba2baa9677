"""A language model continues a text the same alone, in a batch and streamed."""

import inspect

import pytest
import torch

from clearhead.errors import ModelError, SettingsError, TextError
from clearhead.explorer.distribution import SamplingFilter, next_token
from clearhead.layers.attention import AttentionConfig
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.language.generation import GenerateOptions
from clearhead.tasks.language.model import LanguageModel, PromptFormat
from clearhead.tasks.language.sliding_window import SlidingWindow
from clearhead.tasks.load import load, load_for
from clearhead.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig

TEXT = "to be or not to be, that is the question: whether 'tis nobler in the mind to suffer\n" * 3
PROMPTS = ["to be", "the question whether", "n", "or not to be, that"]


def make_language(
    context_length: int = 64,
    kind: str = "character",
    prompt_format: PromptFormat | None = None,
    **changes: object,
) -> LanguageModel:
    torch.manual_seed(3)
    tokenizer = Tokenizer.train([TEXT], TokenizerConfig(kind=kind, vocabulary=300, normalize=False))
    small = {
        "width": 16,
        "ffn_width": 24,
        "attention": {"heads": 2},
        "layers": 2,
        "context_length": context_length,
    }
    config = GPTConfig.model_validate(small | {"tied": "none", "init": "xavier"} | changes)
    model = GPT(config, tokenizer.size)
    torch.nn.init.normal_(model.embedding.weight)
    torch.nn.init.normal_(model.readout_weight, std=0.5)
    with torch.no_grad():  # makes special tokens improbable
        model.decoder.norm.bias[0] = 20
        model.readout_weight[:, 0] = 0
        model.readout_weight[: len(tokenizer.special_tokens), 0] = -5
    return LanguageModel(model, tokenizer, prompt_format)


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    return make_language()


@torch.no_grad()
def uncached(language: LanguageModel, prompt: str, tokens: int) -> list[int]:
    """Greedy tokens by full passes; a full context drops its older half."""
    context_length = language.context_length
    seen, generated = language.encode(prompt)[-context_length:], []
    for _ in range(tokens):
        logits = language.model(torch.tensor([seen]))[0, -1]
        generated.append(int(logits.argmax()))
        if generated[-1] == EOS:
            break
        seen = (seen[-(context_length // 2) :] if len(seen) == context_length else seen) + generated[-1:]
    return generated


@pytest.mark.parametrize("context_length", [64, 12, 7, 2])
def test_greedy_text_equals_full_passes_even_beyond_the_context(context_length):
    language = make_language(context_length, position="rotary")
    for prompt in PROMPTS[:2]:
        tokens = uncached(language, prompt, tokens=25)
        text = language.tokenizer.decode(tokens)
        assert language.generate(prompt, tokens=25, temperature=0).text == text


@pytest.mark.parametrize("context_length", [64, 12])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("score", ["scaled", "location"])
def test_a_prompt_is_continued_the_same_alone_and_in_a_batch(context_length, temperature, score):
    language = make_language(context_length, attention={"heads": 2, "score": score})
    options = {"tokens": 15, "temperature": temperature, "repetition_penalty": 1.2}
    batched = language.generate(PROMPTS, **options, seed=5)
    for number, (prompt, one) in enumerate(zip(PROMPTS, batched, strict=True)):
        alone = language.generate(prompt, **options, seed=5 + number)
        assert (one.text, one.ended) == (alone.text, alone.ended)
        assert one.log_probs == pytest.approx(alone.log_probs, abs=1e-4)


@pytest.mark.parametrize("kind", ["character", "bytes", "bpe"])
@pytest.mark.parametrize("stop", [(), ("e", "th"), ("never reached",)])
def test_streamed_pieces_add_up_to_the_text(kind, stop):
    language = make_language(kind=kind)
    options = {"tokens": 30, "temperature": 1.2, "samples": 3, "stop": stop, "seed": 1}
    whole = language.generate("to be", **options)
    streamed = ["", "", ""]
    for sample, text in language.stream("to be", **options):
        streamed[sample] += text
    assert streamed == [one.text for one in whole.samples]
    for one in whole.samples:
        assert not any(string in one.text for string in stop)


def test_a_stop_string_ends_a_text_before_it(language):
    free = language.generate("to be", tokens=60, temperature=0)
    assert free.ended == "length"
    stop = free.text[20:23]
    stopped = language.generate("to be", tokens=60, temperature=0, stop=stop)
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.ended == "stop"


def test_a_stop_string_that_is_never_reached_changes_nothing(language):
    free = language.generate("to be", tokens=30)
    assert language.generate("to be", tokens=30, stop="%%%").text == free.text


def test_samples_differ_and_are_reproducible_by_seed(language):
    found = language.generate("to be", tokens=30, samples=3, seed=7, temperature=1.5)
    assert len({one.text for one in found.samples}) == 3
    assert found.text == found.samples[0].text
    for number, one in enumerate(found.samples):
        assert language.generate("to be", tokens=30, seed=7 + number, temperature=1.5).text == one.text


def test_log_probs_equal_those_of_a_full_pass(language):
    found = language.generate("to be", tokens=20, temperature=1.0, logprobs=3)
    ids = language.encode("to be") + language.tokenizer.encode(found.text)
    with torch.no_grad():
        expected = language.model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)[4:]
    assert found.ended == "length"
    log_probs = expected.gather(1, torch.tensor(ids[5:])[:, None])[:, 0].tolist()
    assert found.log_probs == pytest.approx(log_probs, abs=1e-4)
    assert found.sum_log_prob == pytest.approx(sum(log_probs), abs=1e-3)
    for best, row in zip(found.alternatives, expected, strict=True):
        assert [log_prob for _, log_prob in best] == pytest.approx(row.topk(3).values.tolist(), abs=1e-4)
        assert len(best) == 3
    assert "".join(found.tokens).replace("▁", " ").replace("↵", "\n") == found.text


def make_model_of_special_tokens() -> LanguageModel:
    """A model that prefers special tokens other than the end of text."""
    language = make_language()
    with torch.no_grad():
        language.model.readout_weight[[PAD, UNK, BOS], 0] = 1
    return language


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_explorer_samples_only_from_tokens_that_can_be_generated(temperature):
    language = make_model_of_special_tokens()
    step = next_token(language, "to be", [], None, SamplingFilter(temperature=temperature, top_k=2), seed=0)
    kept = [one["id"] for one in step["top"] if one["kept"]]
    assert step["top"][0]["id"] in (PAD, UNK, BOS)  # the model's own probabilities are shown
    assert len(kept) == step["kept"] == (2 if temperature else 1)
    assert step["next"]["id"] in kept


@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_suppressed_special_tokens_are_never_generated(temperature):
    language = make_model_of_special_tokens()
    vocabulary = language.tokenizer.size
    found = language.generate("to be", tokens=40, temperature=temperature, samples=4, logprobs=vocabulary)
    for one in found.samples:
        assert len(one.text) == len(one.tokens)
        assert {len(best) for best in one.alternatives} == {vocabulary - 3}
        assert all(log_prob > -torch.inf for best in one.alternatives for _, log_prob in best)


def test_the_repetition_penalty_includes_the_prompt(language):
    with torch.no_grad():
        logits = language.model(torch.tensor([language.encode("n")]))[0, -1]
    best = int(logits.argmax())
    prompt = language.tokenizer.decode([best]) + "n"
    free = language.generate(prompt, tokens=1, temperature=0)
    penalised = language.generate(prompt, tokens=1, temperature=0, repetition_penalty=100.0)
    assert penalised.text not in set(prompt)
    assert free.prompt == penalised.prompt == prompt


def test_the_strictest_filters_are_greedy(language):
    greedy = language.generate("to be", tokens=30, temperature=0).text
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert language.generate("to be", tokens=30, temperature=1.0, **options).text == greedy


def test_a_prompt_longer_than_the_context_is_truncated_and_reported():
    language = make_language(context_length=20)
    found = language.generate(TEXT[:50], tokens=5, temperature=0)
    assert found.truncated == language.truncated(TEXT[:50]) == 30
    assert found.text == language.generate(TEXT[30:50], tokens=5, temperature=0).text
    cut = language.generate(TEXT[:50], tokens=5, temperature=0, overflow="cut")
    assert cut.truncated == 50 - (20 - 5 + 1)
    assert language.truncated(TEXT[:50], GenerateOptions(tokens=5, overflow="cut")) == cut.truncated
    assert cut.prompt == TEXT[:50]
    short = language.generate("to be", tokens=16, temperature=0, overflow="cut")
    assert short.truncated == 0
    with pytest.raises(SettingsError, match="tokens: 21 do not fit into the model's context of 20; lower"):
        language.generate("to be", tokens=21, overflow="cut")


def test_a_text_ends_when_the_model_generates_the_end_token():
    language = make_language()
    with torch.no_grad():
        language.model.readout_weight[EOS, 0] = 0
    found = language.generate("to be", tokens=400, temperature=1.0)
    assert found.ended == "end"
    assert len(found.log_probs) == len(found.tokens) + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "tokens: 0 should be at least 1"),
        ({"tokens": 10**11}, "tokens: 100000000000 should be at most 1,000,000; call it several times"),
        ({"samples": 0}, "samples: 0 should be at least 1"),
        ({"samples": 10**6}, "samples: 1000000 should be at most 1,000; call it several times"),
        ({"temperature": -1.0}, "temperature: -1.0 should be 0 (greedy) or more"),
        ({"temperature": float("nan")}, "temperature: nan should be 0 (greedy) or more"),
        ({"temperature": float("inf")}, "temperature: inf should be finite"),
        ({"top_p": 0.0}, "top_p: 0.0 should be greater than 0 and at most 1"),
        ({"top_k": 0}, "top_k: 0 should be at least 1"),
        ({"min_p": 2.0}, "min_p: 2.0 should be from 0 to 1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty: 0.0 should be from 0.01 to 100"),
        ({"stop": ["a", ""]}, "stop: an empty string would end every text at once; leave it out"),
        ({"seed": -1}, "seed: -1 should be from 0 to"),
        ({"overflow": "wrap"}, "overflow: 'wrap' is not one of slide, cut"),
    ],
)
def test_wrong_options_are_refused_by_name(language, options, message):
    with pytest.raises(SettingsError) as caught:
        language.generate("to be", **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("to\0be", "prompt 1: character 3 is NUL; remove it"),
        (
            "to € be",
            "prompt 1: character 4, '€' (U+20AC), is not in the model's vocabulary; remove it",
        ),
    ],
)
def test_unreadable_characters_are_named(language, prompt, message):
    with pytest.raises(TextError) as caught:
        language.generate(prompt)
    assert str(caught.value) == message


def test_an_empty_prompt_starts_a_new_text(language):
    assert language.encode("") == [BOS]
    assert language.generate("", tokens=5).prompt == ""


def test_prompts_start_with_a_special_token_if_texts_did_in_training(language):
    def start(settings: dict) -> tuple[int, ...]:
        return PromptFormat.from_settings(settings, language.tokenizer).start

    assert start({"batches": {"kind": "packed"}}) == (BOS,)
    assert start({"batches": {"kind": "crops"}}) == ()
    assert start({}) == ()
    starting = make_language(prompt_format=PromptFormat((BOS,)))
    assert starting.encode("to") == [BOS, *language.encode("to")]


def test_prompts_are_put_into_the_template_of_training_and_answered():
    plain = make_language()

    def prompt_format(data: dict) -> PromptFormat:
        return PromptFormat.from_settings({"data": data}, plain.tokenizer)

    template = prompt_format({"template": "to {prompt}: {answer}\n", "columns": ["q", "a"]})
    assert template == PromptFormat((), "to {prompt}: ", "\n", ("q", "a"))
    answer = make_language(prompt_format=template).generate("be", tokens=20, temperature=0)
    assert str(answer) == answer.text == plain.generate("to be: ", tokens=20, temperature=0).text
    assert answer.prompt == "be"
    assert prompt_format({"train": ["x.txt"]}).prefix is None
    assert PromptFormat.from_settings({}, plain.tokenizer) == PromptFormat()


def test_options_are_keyword_arguments_that_tools_can_see():
    for method in (LanguageModel.generate, LanguageModel.stream, LanguageModel.explain):
        parameters = inspect.signature(method).parameters
        assert not [one for one in parameters.values() if one.kind is one.VAR_KEYWORD]
    parameters = inspect.signature(LanguageModel.generate).parameters
    options = {name: one.default for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert options == vars(GenerateOptions())


def test_packed_matrices_keep_their_values(language):
    torch.manual_seed(0)
    model = GPT(GPTConfig(width=16, attention=AttentionConfig(heads=2)), language.tokenizer.size)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    LanguageModel(model, language.tokenizer)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.readout_weight is model.embedding.weight


def test_the_context_of_a_row_slides_when_it_is_full():
    language = make_language(context_length=8)
    window = SlidingWindow(language.model, capacity=30)
    state = window.start([[5] * 9, [6] * 4])
    assert state.lengths.tolist() == [7, 3]
    for _ in range(2):
        window.step(torch.tensor([7, 7]), state)
    assert state.lengths.tolist() == [5, 5]


def test_a_saved_language_model_can_be_loaded(gpt_model):
    loaded = load(gpt_model)
    assert isinstance(loaded, LanguageModel)
    assert (
        loaded.generate("to be", tokens=20).text
        == load_for("language", gpt_model).generate("to be", tokens=20).text
    )
    with pytest.raises(ModelError, match="this model continues text; use clearhead generate"):
        load_for("translation", gpt_model)


def test_a_translator_is_no_language_model(number_model):
    with pytest.raises(ModelError, match="this model translates; use clearhead translate"):
        load_for("language", number_model)
