"""The fifth lecture's table: which models of text notice the order of words, and which their context.

The lecture denies context to recurrent networks; what one word adds does depend on the others there, too.
"""

import numpy as np
import pytest
import torch

from clearhead.models import Bag, BagConfig, BiLSTM, BiLSTMConfig, Encoder, EncoderConfig
from clearhead.models.bag import CountedTexts
from clearhead.models.heads import Classifier

SENTENCE = "the cat sat on the mat"
WORDS = {word: number for number, word in enumerate(dict.fromkeys(SENTENCE.split()), start=4)}


def bag(longest: int):
    pytest.importorskip("sklearn")
    config = BagConfig(max_ngram=longest, weighting="counts")
    counted = CountedTexts.of([SENTENCE, "on the mat the cat"], ("0", "1"), config)
    model, _ = Bag.fit(config, counted, np.array([0, 1]))
    # Other weights than those of two sentences: any will do.
    torch.nn.init.normal_(model.weight, generator=torch.Generator().manual_seed(0))
    return lambda words: model(counted.vocabulary.encode([" ".join(words)]))[0]


def sequence(model):
    def logits(words):
        ids = [*(WORDS[word] for word in words), 3]
        return model.eval()(torch.tensor([ids]), torch.tensor([len(ids)]))[0]

    return logits


def encoder(position: str):
    config = EncoderConfig(width=16, ffn_width=32, position=position)
    return sequence(Encoder(config, 20, Classifier(config.head, 16, 2)))


MODELS = {
    "bag of unigrams": (lambda: bag(1), False, False),
    "bag of bigrams": (lambda: bag(2), True, True),  # of neighbours only: "very limited"
    "RNN": (
        lambda: sequence(BiLSTM(BiLSTMConfig(width=8), 20, Classifier(BiLSTMConfig().head, 16, 2))),
        True,
        True,
    ),
    "Transformer": (lambda: encoder("sinusoidal"), True, True),
    "Transformer without positions": (lambda: encoder("none"), False, True),
}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_order_and_context_are_noticed_as_in_the_table(name: str):
    make, notices_order, notices_context = MODELS[name]
    torch.manual_seed(0)
    logits, words = make(), SENTENCE.split()
    order = (logits(words) - logits(words[::-1])).abs().max()
    first, second = words[:3], words[3:]
    context = (logits(words) - logits(first) - logits(second) + logits([])).abs().max()
    assert (bool(order > 1e-4), bool(context > 1e-4)) == (notices_order, notices_context)


@torch.no_grad()
def test_a_bag_of_bigrams_sees_no_further_than_the_next_word():
    logits = bag(2)
    a, b = "the cat", "sat on"
    # Apart by an unknown word, two pairs of words add nothing to each other.
    joined = logits([*a.split(), "unknown", *b.split()])
    apart = logits(a.split()) + logits(b.split()) - logits([])
    torch.testing.assert_close(joined, apart, rtol=1e-4, atol=1e-4)
