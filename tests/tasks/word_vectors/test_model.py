"""Word vectors in use."""

from pathlib import Path

import pytest
import torch

from clearhead.errors import SettingsError, TextError

from .conftest import by_hand

ROYAL = {
    "man": [1.0, 0.0, 0.2],
    "woman": [0.0, 1.0, 0.2],
    "king": [1.0, 0.0, 2.0],
    "queen": [0.0, 1.0, 2.0],
    "apple": [-1.0, -1.0, 0.0],
}


def test_neighbours_are_ordered_by_cosine_and_leave_the_word_itself_out():
    model = by_hand(**ROYAL)
    found = model.neighbours("king", n=9)
    assert {one.word for one in found} == ROYAL.keys() - {"king"}
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    for one in found:
        assert one.cosine == pytest.approx(model.similarity("king", one.word), abs=1e-6)
        assert torch.equal(model.matrix[one.id], model.vector(one.word))


def test_king_less_man_with_woman_is_queen():
    model = by_hand(**ROYAL)
    assert model.analogy("man", "king", "woman", n=1)[0].word == "queen"
    assert model.analogy("man", "king", "woman") == model.neighbours(["king", "woman"], ["man"])


def test_lengths_do_not_matter_in_a_sum():
    model = by_hand(**ROYAL)
    longer = by_hand(**{**ROYAL, "king": [10 * value for value in ROYAL["king"]]})
    one, other = (made.neighbours(["king", "woman"], ["man"], 2) for made in (model, longer))
    assert [word for word, *_ in one] == [word for word, *_ in other]


@pytest.mark.parametrize("score", ["dot", "scaled", "cosine"])
def test_attention_over_static_vectors_is_softmax_of_the_scores_times_the_vectors(score: str):
    model = by_hand(**ROYAL)
    context = model.in_context("The king and the queen, a woman.", score)
    assert context.words == ("king", "queen", "woman")
    x = torch.stack([model.vector(word) for word in context.words])
    unit = x / x.norm(dim=-1, keepdim=True)
    scores = {"dot": x @ x.T, "scaled": x @ x.T / 3**0.5, "cosine": unit @ unit.T}[score]
    torch.testing.assert_close(context.weights, scores.softmax(-1))
    torch.testing.assert_close(context.vectors, scores.softmax(-1) @ x)


def test_the_text_decides_the_neighbours_of_a_word():
    """A static vector lies between a word's senses; attention moves it to that of the text."""
    model = by_hand(
        windows=[1.0, 1.0], house=[2.0, 0.1], door=[2.2, 0.0], computer=[0.1, 2.0], software=[0.0, 2.2]
    )
    at_home = model.in_text("windows", "The windows and the house", n=1)
    at_work = model.in_text("windows", "Windows on my computer", n=1)
    assert (at_home.near[0].word, at_work.near[0].word) == ("house", "computer")
    assert dict(at_home.weights).keys() == {"windows", "house"}
    assert sum(weight for _, weight in at_home.weights) == pytest.approx(1)


def test_a_text_without_the_word_or_without_known_words_is_refused():
    model = by_hand(**ROYAL)
    with pytest.raises(TextError, match=r"^apple: not in the text, or without a vector; the text has king$"):
        model.in_text("apple", "the king")
    with pytest.raises(TextError, match="none of its words has a vector"):
        model.in_text("apple", "nothing here")
    with pytest.raises(SettingsError, match="'additive' is not one of scaled, dot, cosine"):
        model.in_text("apple", "apple", score="additive")
    with pytest.raises(SettingsError, match="less than 1"):
        model.neighbours("apple", n=0)
    with pytest.raises(SettingsError, match="name at least one"):
        model.neighbours([])


def test_a_map_shows_words_and_neighbours(tmp_path: Path):
    model = by_hand(**ROYAL)
    picture = model.picture(["king", "apple"], n=1)
    texts = {text.get_text().strip() for text in picture.figure.axes[0].texts}
    near = {one.word for word in ("king", "apple") for one in model.neighbours(word, n=1)}
    assert texts == {"king", "apple"} | near
    assert picture.save(tmp_path / "map.png").stat().st_size > 1000
    assert "king (" in picture.alt


def test_maps_of_few_words_are_drawn_too(tmp_path: Path):
    assert by_hand(**ROYAL).picture(["king"]).save(tmp_path / "one.png").exists()
    assert by_hand(a=[1.0], b=[2.0]).picture(["a", "b"]).save(tmp_path / "narrow.png").exists()
