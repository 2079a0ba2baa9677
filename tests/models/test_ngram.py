"""N-gram models against plain dictionaries, and their two ways of scoring against each other."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.testing import assert_close

from clearhead.checkpoint import WEIGHTS, load_checkpoint, save_checkpoint
from clearhead.config import parse_settings
from clearhead.decoding import Constraints, beam_search, greedy_search, sample
from clearhead.errors import DataError, ModelError, SettingsError
from clearhead.inspection import capture
from clearhead.models.backoff import FALLBACK, discounts
from clearhead.models.ngram import IMPOSSIBLE, Ngram, NgramConfig, NgramState
from clearhead.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig

VOCABULARY = 40
VARIANTS = {
    "order 1": {"order": 1},
    "order 2": {"order": 2},
    "order 5": {"order": 5},
    "plain": {"order": 3, "smoothing": "none"},
    "cache": {"order": 3, "cache": {"half_life": 5.0, "unigram": 0.2, "bigram": 0.1}},
    "skips": {"order": 2, "skips": {"reach": 4}},
    "selective": {"order": 3, "skips": {"reach": 4, "min_information": 0.8}},
    "everything": {"order": 3, "skips": {"min_information": 0.5}, "cache": {}},
}


def random_sentences(seed: int, count: int) -> list[list[int]]:
    """Sentences in which frequent words, and pairs of words, come again."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.geometric(0.12, 5 * count), VOCABULARY - 4) + 3
    lengths = iter(rng.integers(1, 10, count).tolist())
    starts = iter(rng.integers(0, 4 * count, count).tolist())
    return [words[start : start + length].tolist() for start, length in zip(starts, lengths, strict=True)]


def joined(sentences: list[list[int]]) -> list[int]:
    return [token for sentence in sentences for token in (BOS, *sentence, EOS)]


TRAIN = random_sentences(0, 400)
TEST = torch.tensor(joined([*random_sentences(1, 20), *random_sentences(0, 400)[:5], [UNK, 5, UNK]]))


def counted(**settings: object) -> Ngram:
    model = Ngram(parse_settings(NgramConfig, settings), VOCABULARY)
    model.count(np.array(joined(TRAIN)))
    return model


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Ngram:
    return counted(**VARIANTS[request.param])


class KneserNey:
    """Interpolated modified Kneser-Ney by its definition (Chen and Goodman 1999), with dictionaries."""

    def __init__(self, order: int):
        grams = [
            Counter(
                tuple(sentence[first : first + length])
                for sentence in ([BOS, *words, EOS] for words in TRAIN)
                for first in range(len(sentence) - length + 1)
            )
            for length in range(1, order + 1)
        ]
        self.counts = []
        for number, own in enumerate(grams):
            if number == order - 1:
                found = Counter(own)
            else:
                found = Counter(gram[1:] for gram in grams[number + 1])
                found.update({gram: own[gram] for gram in own if gram[0] == BOS})
            found.pop((BOS,), None)
            self.counts.append(found)

    def probability(self, word: int, context: tuple[int, ...]) -> float:
        order = len(context) + 1
        lower = self.probability(word, context[1:]) if context else 1 / (VOCABULARY - 2)
        counts = self.counts[order - 1]
        after = {gram: count for gram, count in counts.items() if gram[:-1] == context}
        if not after:
            return lower
        taken = {gram: self.discount(order, count) for gram, count in after.items()}
        gram, total = (*context, word), sum(after.values())
        own = after.get(gram, 0) - taken.get(gram, 0.0)
        return own / total + sum(taken.values()) / total * lower

    def discount(self, order: int, count: int) -> float:
        often = Counter(self.counts[order - 1].values())
        if not all(often[number] for number in (1, 2, 3)):
            return (0.5, 1.0, 1.5)[min(count, 3) - 1]
        y = often[1] / (often[1] + 2 * often[2])
        found = [number - (number + 1) * y * often[number + 1] / often[number] for number in (1, 2, 3)]
        if not all(0 < one <= number for number, one in enumerate(found, start=1)):
            found = [0.5, 1.0, 1.5]
        return found[min(count, 3) - 1]


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_kneser_ney_equals_its_definition(order: int):
    model, reference = counted(order=order), KneserNey(order)
    tokens = TEST.tolist()
    found = model.probabilities(TEST)
    for position in range(0, len(tokens), 3):
        if tokens[position] == BOS:
            continue
        start = max(earlier for earlier in range(position) if tokens[earlier] == BOS)
        context = tuple(tokens[max(start, position - order + 1) : position])
        expected = reference.probability(tokens[position], context)
        assert float(found[position]) == pytest.approx(expected, abs=1e-10)


def test_probabilities_sum_to_one_and_steps_equal_the_score_of_a_text(model: Ngram):
    state, found = model.start(TEST[None, :0]), model.probabilities(TEST)
    for position in range(len(TEST) - 1):
        after = model.step(TEST[position : position + 1], state)[0].exp()
        assert float(after.sum()) == pytest.approx(1, abs=1e-12)
        assert float(after[[PAD, BOS]].sum()) < 1e-12
        if (word := int(TEST[position + 1])) != BOS:
            assert float(after[word]) == pytest.approx(float(found[position + 1]), abs=1e-12)
    assert (found[TEST == BOS] < 1e-12).all()


def test_a_full_pass_equals_steps_and_rows_do_not_depend_on_each_other(model: Ngram):
    rows = TEST[:24].view(2, 12)
    full = model(rows)
    assert_close(full[1], model(rows[1:])[0])
    state = model.start(rows[:, :5])
    state.select(torch.tensor([1, 0, 1]))
    assert_close(model.step(rows[[1, 0, 1], 5], state), full[[1, 0, 1], 5])


def test_padding_before_a_row_has_no_influence(model: Ngram):
    padded = torch.tensor([[PAD, PAD, BOS, 5, 6]])
    assert_close(
        model.step(torch.tensor([7]), model.start(padded)),
        model.step(torch.tensor([7]), model.start(padded[:, 2:])),
    )


def test_searches_and_sampling_work_on_steps(model: Ngram):
    def start() -> tuple[NgramState, Constraints]:
        empty = torch.zeros(2, 0, dtype=torch.long)
        return model.start(empty), Constraints(torch.tensor([BOS, BOS]), EOS, 8)

    greedy = [one.tokens for one in greedy_search(model.step, *start())]
    wide = beam_search(model.step, *start(), beam=4)
    assert wide[0][0].sum_log_prob >= greedy_search(model.step, *start())[0].sum_log_prob - 1e-6
    assert greedy[0] == greedy[1]
    drawn = sample(model.step, *start(), seeds=[1, 1])
    assert drawn[0].tokens == drawn[1].tokens


def test_the_shares_of_all_orders_sum_to_one():
    model = counted(order=4)
    with capture(model, ["orders", "logits"]) as trace:
        model(TEST[None, :10])
    assert trace["orders"].shape == (1, 10, 5)
    assert_close(trace["orders"].sum(-1), torch.ones(1, 10).double())
    assert torch.equal(trace["logits"], model(TEST[None, :10]))


def test_without_smoothing_what_was_never_seen_is_impossible():
    model = counted(order=2, smoothing="none")
    after = model.step(torch.tensor([BOS]), model.start(torch.zeros(1, 0, dtype=torch.long)))[0]
    seen = {sentence[0] for sentence in TRAIN}
    possible = {word for word in range(VOCABULARY) if after[word] > np.log(IMPOSSIBLE) + 1}
    assert possible == seen


def test_a_context_never_seen_is_shortened():
    model = counted(order=3)
    unseen = next((a, b) for a in range(4, 40) for b in range(4, 40) if not _occurs((a, b)))
    long, short = model.start(torch.tensor([unseen[:1]])), model.start(torch.zeros(1, 0, dtype=torch.long))
    last = torch.tensor(unseen[1:])
    assert_close(model.step(last, long), model.step(last, short))


def test_a_word_in_the_cache_becomes_more_likely_and_fades():
    model = counted(**VARIANTS["cache"])
    text = torch.tensor([BOS, 30, EOS, *[BOS, 5, 6, 7, 8, EOS] * 6])
    state, likely = model.start(text[None, :0]), []
    for token in text:
        likely.append(float(model.step(token[None], state)[0, 30].exp()))
    ends = (text == EOS).nonzero()[:, 0].tolist()
    after_end = [likely[end] for end in ends]
    assert after_end[0] > after_end[1] > after_end[3] > after_end[-1]


def test_discounts_are_those_of_chen_and_goodman():
    """Counts of counts 40, 20, 10, 5: Y is a half."""
    counts = torch.tensor([1] * 40 + [2] * 20 + [3] * 10 + [4] * 5)
    assert discounts(counts, "kneser-ney").tolist() == [0, 0.5, 1.25, 2.0]
    assert (*discounts(counts[:40], "kneser-ney").tolist(),) == FALLBACK


def _occurs(pair: tuple[int, int]) -> bool:
    return any(pair in zip([BOS, *one], [*one, EOS], strict=True) for one in TRAIN)


# Files


@pytest.fixture
def folder(model: Ngram, tmp_path: Path) -> Path:
    words = " ".join(f"w{number:02}" for number in range(VOCABULARY - 4))
    tokenizer = Tokenizer.train([words], TokenizerConfig(kind="whitespace"))
    save_checkpoint(tmp_path / "model", model, tokenizer, {"kind": "ngrams"})
    return tmp_path / "model"


def test_a_saved_model_scores_the_same(model: Ngram, folder: Path):
    loaded = load_checkpoint(folder).model
    assert isinstance(loaded, Ngram)
    assert torch.equal(loaded.probabilities(TEST), model.probabilities(TEST))
    counts = [tensor for name, tensor in load_file(folder / WEIGHTS).items() if "cache" not in name]
    assert not any(tensor.is_floating_point() for tensor in counts)


def swapped(values: dict[str, Tensor]) -> None:
    values["backoff.orders.1.keys"] = values["backoff.orders.1.keys"].flip(0)


def negative(values: dict[str, Tensor]) -> None:
    values["backoff.orders.1.counts"] = -values["backoff.orders.1.counts"]


def beyond(values: dict[str, Tensor]) -> None:
    values["backoff.orders.1.keys"][-1] = 1 << 60


def shortened(values: dict[str, Tensor]) -> None:
    values["backoff.orders.1.counts"] = values["backoff.orders.1.counts"][:-1]


def floats(values: dict[str, Tensor]) -> None:
    values["backoff.orders.1.counts"] = values["backoff.orders.1.counts"].float()


def missing(values: dict[str, Tensor]) -> None:
    del values["backoff.orders.1.keys"]


def foreign(values: dict[str, Tensor]) -> None:
    values["skips.keys"] = torch.zeros(3, dtype=torch.long)


def other_vocabulary(values: dict[str, Tensor]) -> None:
    values["backoff.orders.0.keys"] = torch.arange(VOCABULARY - 1)
    values["backoff.orders.0.counts"] = values["backoff.orders.0.counts"][:-1]


DAMAGED = "the table of 2-grams is damaged: its keys are not in order or its counts below 0; copy it again"


@pytest.mark.parametrize("model", ["order 2"], indirect=True)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (swapped, DAMAGED),
        (negative, DAMAGED),
        (beyond, DAMAGED),
        (shortened, DAMAGED),
        (floats, "backoff.orders.1.counts is not a list of integers; copy it again"),
        (missing, "has no backoff.orders.1.keys; it belongs to another model than config.toml"),
        (foreign, "skips.keys is not part of the model that config.toml describes"),
        (other_vocabulary, "has 39 words, but the tokenizer 40; the files belong to different models"),
    ],
)
def test_damaged_tables_are_refused(folder: Path, damage, message: str):
    values = load_file(folder / WEIGHTS)
    damage(values)
    save_file(values, folder / WEIGHTS)
    with pytest.raises(ModelError) as error:
        load_checkpoint(folder)
    assert str(error.value) == f"{folder / WEIGHTS}: {message}"


@pytest.mark.parametrize("model", ["everything"], indirect=True)
@pytest.mark.parametrize(
    ("name", "message"),
    [("skips.counts", "the table of skips is damaged"), ("cache.settings", "of the cache")],
)
def test_damaged_skips_and_caches_are_refused(folder: Path, name: str, message: str):
    values = load_file(folder / WEIGHTS)
    values[name] = -values[name]
    save_file(values, folder / WEIGHTS)
    with pytest.raises(ModelError, match=message):
        load_checkpoint(folder)


# Bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order: 0 should be greater than or equal to 1"),
        ({"order": 7}, "order: 7 should be less than or equal to 6"),
        ({"smoothing": "laplace"}, "smoothing: 'laplace' is not one of kneser-ney, none"),
        ({"skips": {"reach": 0}}, "skips.reach: 0 should be greater than or equal to 1"),
        (
            {"cache": {"unigram": 0.1}},
            "cache: unigram and bigram are weights of one mixture; set both or neither",
        ),
        ({"cache": {"unigram": 0.6, "bigram": 0.4}}, "cache: unigram and bigram leave nothing to the model"),
    ],
)
def test_wrong_settings_are_rejected(settings: dict[str, object], message: str):
    with pytest.raises(SettingsError) as error:
        parse_settings(NgramConfig, settings)
    assert str(error.value).startswith(message)


def test_sentences_shorter_than_the_order_are_reported():
    model = Ngram(NgramConfig(order=5), VOCABULARY)
    with pytest.raises(DataError, match=r"model.order 5: no sentence has 4 tokens, .* included; lower it"):
        model.count(np.array([BOS, 5, EOS] * 4))
    skips = Ngram(parse_settings(NgramConfig, {"order": 2, "skips": {}}), VOCABULARY)
    with pytest.raises(DataError, match=r"no sentence has two words, so there is nothing to skip"):
        skips.count(np.array([BOS, 5, EOS] * 4))


def test_a_vocabulary_too_large_for_skips_is_reported():
    with pytest.raises(SettingsError, match=r"model.skips: a vocabulary of 3,000,000 exceeds 2,097,152"):
        Ngram(parse_settings(NgramConfig, {"skips": {}}), 3_000_000)


def test_a_matrix_of_many_contexts_is_refused():
    model = Ngram(NgramConfig(order=2), 10_000)
    model.count(np.array([BOS, *range(4, 9_999), EOS]))
    with pytest.raises(SettingsError, match=r"transitions: 9,996 contexts of 10,000 words are too many"):
        model.transitions()
