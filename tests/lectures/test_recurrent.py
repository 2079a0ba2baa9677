"""The fourth lecture's simple attention, on a bidirectional recurrent network, by our own model."""

import pytest
import torch
from torch import Tensor

from clearhead.inspection import Trace, capture
from clearhead.layers.layout import Padded
from clearhead.models.seq2seq import Seq2Seq, Seq2SeqConfig

WIDTH, SOURCE, TARGET = 6, 5, 4


@pytest.fixture
def model() -> Seq2Seq:
    torch.manual_seed(0)
    made = Seq2Seq(Seq2SeqConfig.model_validate({"width": WIDTH, "dropout": 0.0, "max_length": 12}), 20)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.eval()


@torch.no_grad()
def captured(model: Seq2Seq, target: list[int]) -> Trace:
    source, lengths = torch.arange(4, 4 + SOURCE)[None], torch.tensor([SOURCE])
    with capture(model) as trace:
        model(source, Padded(lengths), torch.tensor([target]))
    return trace


def test_the_context_of_a_word_is_the_weighted_sum_of_both_directions(model):
    """Σ α<i,t'> = 1 and c<i> = Σ α<i,t'> a<t'>, where a<t> concatenates the states of both directions."""
    trace = captured(model, [1, 5, 6, 7])
    alpha = trace["attention.weights"][0, 0]
    torch.testing.assert_close(alpha.sum(-1), torch.ones(TARGET))
    states = trace["encoder.layers.0.hidden"][0]
    both = torch.cat([states[0], states[1]], -1)
    assert both.shape == (SOURCE, 2 * WIDTH)
    # The sum of projected states is the projection of their sum, as all weights sum to 1.
    attention = model.attention
    context = attention.output(attention.project_kv(model.merge((alpha @ both)[None])).values[:, 0])
    torch.testing.assert_close(trace["attention.added"], context)


def test_the_weights_depend_on_the_state_before_the_word_and_on_the_source(model):
    """e<i,t> is computed from S<i-1> and A<t>: the word read at step i changes the weights from i + 1 on."""

    def weights(target: list[int]) -> Tensor:
        return captured(model, target)["attention.weights"][0, 0]

    one, other = weights([1, 5, 6, 7]), weights([1, 5, 9, 7])
    torch.testing.assert_close(one[:3], other[:3])
    assert not torch.allclose(one[3], other[3], atol=1e-4)


def test_the_score_is_a_small_network_of_state_and_source(model):
    """v·tanh(Wq + Uk) over the queries and keys that our attention projects."""
    trace, score = captured(model, [1, 5, 6, 7]), model.attention.score
    queries, keys = trace["attention.queries"][0, 0], trace["attention.keys"][0, 0]
    for step in range(TARGET):
        for position in range(SOURCE):
            summed = queries[step] @ score.query[0] + keys[position] @ score.key[0]
            expected = score.value[0] @ summed.tanh()
            torch.testing.assert_close(trace["attention.scores"][0, 0, step, position], expected)
