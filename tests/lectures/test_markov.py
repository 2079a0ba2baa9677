"""The lectures' tables of Markov chains, skips and masks, counted by our model from their sentences."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.mask import Mask
from clearhead.models.ngram import Ngram, NgramConfig, TransitionMatrix
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

# Each sentence as often as the lecture's proportions say.
SHOW = (
    ["show me my directories please"] * 2 + ["show me my files please"] * 3 + ["show me my photos please"] * 5
)
RAN = ["check whether the battery ran down please"] * 2 + ["check whether the program ran please"] * 3
PROGRAM = "check the program log and find out whether it ran please"
BATTERY = "check the battery log and find out whether it ran down please"


class Chain:
    """A model of relative frequencies, whose matrices are read by words."""

    def __init__(self, sentences: Sequence[str], **settings: object):
        self.tokenizer = Tokenizer.train(sentences, TokenizerConfig(kind="whitespace"))
        config = NgramConfig.model_validate({"smoothing": "none", **settings})
        self.model = Ngram(config, self.tokenizer.size)
        ids = self.tokenizer.encode_batch(sentences)
        self.model.count(np.array([one for sentence in ids for one in (BOS, *sentence, EOS)]))
        self.transitions: TransitionMatrix = self.model.transitions()
        self.mask = self.model.skips.mask if self.model.skips else torch.ones(len(self.transitions.contexts))

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text))

    def words(self, sentences: Sequence[str]) -> list[str]:
        """The vocabulary in the lecture's order."""
        return sorted({word for sentence in sentences for word in sentence.split()})

    def row(self, context: str, words: Sequence[str]) -> list[float]:
        """One-hot of a context times the transition matrix, as the lecture looks a row up."""
        found = self.transitions.one_hot(self.ids(context)) @ self.transitions.matrix
        return [round(float(found[self.ids(word)[0]]), 9) for word in words]

    def next(self, text: str) -> Tensor:
        """What our decoding step says after a text."""
        tokens = torch.tensor([[BOS, *self.ids(text)]])
        state = self.model.start(tokens[:, :-1])
        return self.model.step(tokens[:, -1], state)[0].exp()


def test_one_hot_rows_pull_rows_of_a_matrix():
    chain = Chain(SHOW, order=2)
    chosen = TransitionMatrix(
        [(0,), (1,), (2,), (3,)], torch.tensor([[0.2, 0.9], [0.7, 0], [0.8, 0.3], [0.1, 0.4]]).double()
    )
    one_hot = torch.stack([chosen.one_hot((row,)) for row in (0, 3, 2)])
    assert one_hot.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert_close(one_hot @ chosen.matrix, torch.tensor([[0.2, 0.9], [0.1, 0.4], [0.8, 0.3]]).double())
    assert chain.transitions.matrix.shape[1] == chain.tokenizer.size


def test_the_first_order_chain_of_directories_files_and_photos():
    chain = Chain(SHOW, order=2)
    words = chain.words(SHOW)
    assert words == ["directories", "files", "me", "my", "photos", "please", "show"]
    assert [chain.row(word, words) for word in words] == [
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0, 0, 0],
        [0.2, 0.3, 0, 0, 0.5, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 0],  # no word: the sentence ends
        [0, 0, 1, 0, 0, 0, 0],
    ]
    assert float(chain.next("show me my files please")[EOS]) == pytest.approx(1)


def test_the_first_order_chain_of_battery_and_program():
    chain = Chain(RAN, order=2)
    words = chain.words(RAN)
    assert words == ["battery", "check", "down", "please", "program", "ran", "the", "whether"]
    assert [chain.row(word, words) for word in words] == [
        [0, 0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0.4, 0.6, 0, 0, 0, 0],
        [0.4, 0, 0, 0, 0.6, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 1, 0],
    ]


def test_the_second_order_chain_is_certain_after_ran():
    chain = Chain(RAN, order=3)
    rows = {
        "battery ran": [0, 0, 1, 0, 0, 0, 0, 0],
        "check whether": [0, 0, 0, 0, 0, 0, 1, 0],
        "program ran": [0, 0, 0, 1, 0, 0, 0, 0],
        "the battery": [0, 0, 0, 0, 0, 1, 0, 0],
        "the program": [0, 0, 0, 0, 0, 1, 0, 0],
        "ran down": [0, 0, 0, 1, 0, 0, 0, 0],
        "whether the": [0.4, 0, 0, 0, 0.6, 0, 0, 0],
    }
    assert {context: chain.row(context, chain.words(RAN)) for context in rows} == rows


# After "ran": the lecture's 13 rows, of which its text has the columns one too far left.
SKIPS = {
    **{word: [0.5, 0.5] for word in ("and", "check", "find", "it", "log", "out", "the", "whether")},
    "battery": [1.0, 0.0],
    "program": [0.0, 1.0],
    **{word: [0.0, 0.0] for word in ("down", "please", "ran")},  # never seen before "ran": no vote
}


def test_the_table_of_skips_has_thirteen_rows():
    chain = Chain([PROGRAM, BATTERY], order=2, skips={"reach": 10})
    assert chain.words([PROGRAM, BATTERY]) == sorted(SKIPS)
    rows = {word: chain.row(f"{word} ran", ["down", "please"]) for word in SKIPS}
    assert rows == SKIPS


def test_all_features_vote_and_hardly_decide():
    """Nine features are active after the program's "ran": four votes for down, five for please."""
    chain = Chain([PROGRAM, BATTERY], order=2, skips={"reach": 10})
    before = PROGRAM.removesuffix(" please")
    activities = chain.transitions.one_hot(*_features(chain, before))
    votes = activities @ chain.transitions.matrix
    down, please = (chain.ids(word)[0] for word in ("down", "please"))
    assert (float(activities.sum()), float(votes[down]), float(votes[please])) == (9, 4, 5)
    assert_close(chain.next(before), votes / activities.sum(), atol=1e-12, rtol=0)


def test_the_mask_leaves_the_two_rows_that_matter():
    chain = Chain([PROGRAM, BATTERY], order=2, skips={"reach": 10, "min_information": 0.5})
    words, before = chain.words([PROGRAM, BATTERY]), PROGRAM.removesuffix(" please")
    everything = [chain.ids(f"{word} ran") for word in words]

    def of_ran(features: Tensor) -> list[float]:
        by_context = dict(zip(chain.transitions.contexts, features.tolist(), strict=True))
        return [by_context.get(feature, 0.0) for feature in everything]

    activities, mask = chain.transitions.one_hot(*_features(chain, before)), chain.mask
    assert of_ran(activities) == [1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1]
    assert of_ran(mask) == [0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert of_ran(activities * mask) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    votes = (activities * mask) @ chain.transitions.matrix
    please = chain.ids("please")[0]
    assert (float(votes[please]), float(votes.sum())) == (1, 1)
    assert_close(chain.next(before), votes, atol=1e-12, rtol=0)
    assert float(chain.next(BATTERY.split(" down")[0])[chain.ids("down")[0]]) == 1


def test_the_masked_votes_are_attention():
    """The query "ran" pulls its row of masks; as scores of 0 and -∞, our attention has the same weights."""
    chain = Chain([PROGRAM, BATTERY], order=2, skips={"reach": 10, "min_information": 0.5})
    tokens = chain.ids(PROGRAM.removesuffix(" please"))
    earlier = dict(zip(chain.transitions.contexts, chain.mask.tolist(), strict=True))
    scores = torch.tensor([[earlier.get((word, tokens[-1]), 0.0) for word in tokens[:-1]]]).log()
    seen: list[Tensor] = []

    def tap(name: str, tensor: Tensor) -> Tensor:
        if name == "weights":
            seen.append(tensor[0, 0])
        return scores[None, None] if name == "scores" else tensor

    attention = Attention(4, AttentionConfig(heads=1), max_positions=16)
    attention.tap = tap
    queries, keys = torch.zeros(1, 1, 4), torch.zeros(1, len(tokens) - 1, 4)
    attention(attention.project_q(queries), attention.project_kv(keys), Mask())
    active = [float(word == chain.ids("program")[0]) for word in tokens[:-1]]
    assert seen[0][0].tolist() == active


def _features(chain: Chain, text: str) -> list[tuple[int, ...]]:
    *earlier, recent = chain.ids(text)
    return [(word, recent) for word in earlier]
