"""Scores of captions: equal to pycocoevalcap's, and floors that no shortcut gets past."""

import pytest

from clearhead.errors import DataError
from clearhead.evaluation.captions import (
    best_constant,
    caption_bleu,
    caption_words,
    cider_d,
    one_against_others,
    shuffled,
)

CAPTIONS = [
    "A dog runs .",
    "two dogs run run run on the grass",
    "a man climbs a rock",
    "a girl in a pink dress .",
]
REFERENCES = [
    ["A dog is running on grass .", "A brown dog runs ."],
    ["Two dogs run on the green grass .", "Dogs playing", "two dogs run"],
    ["A man climbs a rock face .", "A climber on a rock"],
    ["A little girl in a pink dress going into a wooden cabin .", "A girl going into a wooden building ."],
]
# pycocoevalcap 1.2 on the words of these sentences: Cider().compute_score and Bleu(4).compute_score.
COCO_CIDER = 2.9069868577048554
COCO_BLEU = (0.8686936692558318, 0.8317108672776514, 0.722861922419234, 0.6164123687239598)


def test_cider_d_equals_pycocoevalcap() -> None:
    assert cider_d(CAPTIONS, REFERENCES).value == pytest.approx(COCO_CIDER, abs=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_bleu_equals_pycocoevalcap(order: int) -> None:
    found = caption_bleu(CAPTIONS, REFERENCES, order)
    assert found.name == f"BLEU-{order}"
    assert found.value == pytest.approx(100 * COCO_BLEU[order - 1], abs=1e-4)


def test_captions_are_scored_without_case_and_punctuation() -> None:
    assert caption_words(" A man 's dog , in_side (red) T-shirt . ") == "a man s dog inside red tshirt"
    loud = [text.upper().replace(".", "!") for text in CAPTIONS]
    assert caption_bleu(loud, REFERENCES).value == caption_bleu(CAPTIONS, REFERENCES).value


def test_repeating_a_shared_word_does_not_raise_cider_d() -> None:
    def score(caption: str) -> float:
        return cider_d([caption, *CAPTIONS[1:]], REFERENCES).value

    assert score("a brown dog runs") > score("a brown dog dog dog runs")


def test_the_best_constant_has_the_bleu_that_sacrebleu_gives_it() -> None:
    text, bleu = best_constant(REFERENCES, ["a man in a pink dress runs", "a girl runs"])
    assert caption_bleu([text] * 4, REFERENCES).value == pytest.approx(bleu)
    every = {caption_words(one) for several in REFERENCES for one in several}
    for other in every:
        words = other.split()
        # sacreBLEU smooths where no four words match; best_constant counts these as 0.
        if any(" ".join(words[i : i + 4]) in " ".join(every) for i in range(len(words) - 3)):
            assert bleu >= caption_bleu([other] * 4, REFERENCES).value - 1e-9


def test_a_person_is_scored_against_the_others() -> None:
    same = [["a dog runs on grass"] * 3, ["two men climb a rock"] * 3]
    assert one_against_others(same) == pytest.approx(100)
    assert one_against_others([*same, ["one caption only"]]) is None


def test_shuffling_gives_every_image_the_caption_of_another() -> None:
    captions = [str(number) for number in range(50)]
    moved = shuffled(captions)
    assert sorted(moved) == sorted(captions)
    assert all(one != other for one, other in zip(captions, moved, strict=True))
    assert moved == shuffled(captions)


def test_captions_without_references_are_refused() -> None:
    with pytest.raises(DataError, match="4 captions, 3 references"):
        cider_d(CAPTIONS, REFERENCES[:3])
