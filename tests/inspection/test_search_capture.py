"""A capture of a search keeps every step of the hypotheses that it returns; gradients on request."""

import pytest
import torch

import clearhead
from clearhead.decoding import Constraints, beam_search, greedy_search
from clearhead.errors import SettingsError
from clearhead.inspection import capture, sites
from clearhead.inspection.gradients import gradient_norms
from clearhead.layers.layout import Padded
from clearhead.tasks.load import load

BOS, EOS = 2, 3


def search(case, beam: int, sources: int) -> list[list[int]]:
    """The tokens of the best hypotheses after one token, by greedy or beam search."""
    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(4, 20, (sources, 6), generator=generator)
    first, limits = torch.full((sources,), BOS), torch.tensor([7, 4, 5])[:sources]
    constraints = Constraints(first, EOS, limits)
    lengths = torch.tensor([6, 3, 5])[:sources]
    state = case.model.start(texts, lengths) if case.translates else case.model.start(texts[:, :0])
    if beam == 1:
        found = greedy_search(case.model.step, state, constraints)
    else:
        found = [best[0] for best in beam_search(case.model.step, state, constraints, beam)]
    passes = []
    for row, one in enumerate(found):
        tokens = torch.tensor([[BOS, *one.tokens]])[:, : len(one.log_probs)]
        source = texts[row : row + 1, : lengths[row]]
        passes.append((source, Padded(lengths[row : row + 1]), tokens) if case.translates else (tokens,))
    return passes


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("sources", [1, 3])
def test_a_captured_search_equals_full_passes_over_what_it_returns(case, beam, sources):
    with capture(case.model) as found:
        passes = search(case, beam, sources)
    assert set(found) == set(sites(case.model))
    for row, given in enumerate(passes):
        with capture(case.model) as full:
            case.logits(given)
        for name in sites(case.model):
            expected, got = full[name][0], found[name][row if len(found[name]) > 1 else 0]
            inside = got[tuple(slice(size) for size in expected.shape)]
            assert inside.shape == expected.shape, name
            if name.endswith("scores"):
                # Keys after a query have no score yet.
                expected = expected.masked_fill(inside == float("-inf"), float("-inf"))
            torch.testing.assert_close(inside, expected, atol=1e-5, rtol=1e-4, msg=name)


def test_steps_are_kept_as_they_were_computed(case_of):
    case = case_of("translator")
    with capture(case.model, ["logits", "encoder.states"]) as trace:
        passes = search(case, beam=4, sources=1)
    steps = trace.steps("logits")
    assert len(steps) >= passes[0][-1].shape[1] == trace["logits"].shape[1]
    assert [len(step) for step in steps] == [1] + [4] * (len(steps) - 1)
    assert len(trace.steps("encoder.states")) == 1
    assert repr(trace).startswith("Trace of 2 tensors, ")
    assert repr(trace).endswith("bytes: encoder.states, logits")


def test_a_second_pass_or_search_replaces_the_first(case_of):
    case = case_of("translator")
    with capture(case.model) as once:
        search(case, 4, 1)
    with capture(case.model) as trace:
        search(case, 1, 3)
        case.logits(case.text())
        search(case, 4, 1)
    assert all(torch.equal(trace[name], once[name]) for name in once)
    with capture(case.model) as trace:
        search(case, 4, 3)
        case.logits(case.text())
    with capture(case.model) as alone:
        case.logits(case.text())
    assert all(torch.equal(trace[name], alone[name]) for name in alone)


def test_a_captured_translation_is_that_of_its_explanation(number_model):
    model = load(number_model)
    for options in ({"beam": 1}, {"beam": 4}):
        with capture(model.model, ["decoder.*.cross_attention.weights", "logits"]) as trace:
            model.translate("three one four", **options)
        explanation = model.explain("three one four", **options)
        for name, tensor in trace.items():
            torch.testing.assert_close(tensor, explanation.trace[name], atol=1e-4, rtol=1e-3)


def test_captured_samples_of_one_prompt_each_have_a_row(babbler):
    language = load(babbler)
    names = ["decoder.states", "decoder.*.weights"]
    with capture(language.model, names) as trace:
        found = language.generate("to be", tokens=6, temperature=1.2, samples=3, seed=1)
    for row, sample in enumerate(found.samples):
        ids = [*language.encode("to be"), *language.tokenizer.encode(sample.text)]
        if len(ids) != len(language.encode("to be")) + len(sample.tokens):
            continue
        with capture(language.model, names) as full, torch.no_grad():
            language.logits(ids[:-1])
        for name, tensor in full.items():
            got = trace[name][row][tuple(slice(size) for size in tensor[0].shape)]
            torch.testing.assert_close(got, tensor[0], atol=1e-4, rtol=1e-3)


def test_gradients_are_those_of_autograd(case):
    text = case.text()
    with capture(case.model, gradients=True) as trace:
        logits = case.model(*text)
    gradients = trace.gradients(logits[0, -1, 7])
    floats = {name for name, tensor in trace.items() if tensor.is_floating_point()}
    # The last logits depend on all but what is only shown: scores before the mask is applied count too.
    assert floats == set(gradients)
    one_hot = torch.zeros_like(logits)
    one_hot[0, -1, 7] = 1
    assert torch.equal(gradients["logits"], one_hot)
    # By hand: nudge a tensor in a direction, and see how the logit changes.
    for name in ("decoder.blocks.0.attention.weights", "decoder.blocks.1.feedforward.added"):
        direction = torch.randn(trace[name].shape, generator=torch.Generator().manual_seed(3)).double()
        expected = float((gradients[name].double() * direction).sum())
        found = []
        case.model.double()
        for size in (1e-4, -1e-4):
            nudge = size * direction
            with clearhead.intervene(case.model, {name: nudge.add}):
                found.append(float(case.logits(text)[0, -1, 7]))
        case.model.float()
        assert (found[0] - found[1]) / 2e-4 == pytest.approx(expected, rel=1e-3, abs=1e-4), name
    assert all(one.grad is None for one in case.model.parameters())


def test_the_gradient_of_token_vectors_is_that_of_the_gradient_map(case_of):
    case = case_of("translator")
    text, site = case.text(), "source_embedding.token_embeddings"
    with capture(case.model, [site], gradients=True) as trace:
        log_probs = case.model(*text)[0].log_softmax(-1)[:, 5]
    norms = torch.cat([trace.gradients(one)[site].norm(dim=-1) for one in log_probs])
    run = lambda: case.model(*text)[0]  # noqa: E731
    torch.testing.assert_close(norms, gradient_norms(case.model, run, site, [5] * len(log_probs)))


def test_what_has_no_gradient_says_why(case_of):
    case = case_of("gpt")
    with capture(case.model, ["decoder.states"]) as trace:
        logits = case.model(*case.text())
    with pytest.raises(SettingsError, match="gradients: the pass kept none; run it under capture"):
        trace.gradients(logits[0, 0, 0])
    with capture(case.model, ["decoder.states"], gradients=True) as trace:
        logits = case.model(*case.text())
        searched = case.logits(case.text())
    with pytest.raises(SettingsError, match="the pass kept none"):
        trace.gradients(searched[0, 0, 0])
    with pytest.raises(SettingsError, match=r"scalar: \(1, 5, 20\) is not one number; choose one"):
        trace.gradients(logits)
