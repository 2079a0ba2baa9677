"""[MASK] in a text becomes the mask token, and nothing around it changes."""

import pytest

from clearhead.errors import ModelError
from clearhead.text.kinds import KINDS
from clearhead.text.masks import encode_masked
from clearhead.text.tokenizer import MASK, SPECIAL_TOKENS, Tokenizer, TokenizerConfig

TEXTS = ["The cat drinks milk.", "A dog, a cat: people drink “water”!", "the dogs drink"] * 20
# In the other kinds, a token does not hold the space before it.
WITH_SPACES = ("bpe", "unigram", "bytes", "wordpiece")


def tokenizer(kind: str, **settings) -> Tokenizer:
    config = TokenizerConfig(kind=kind, vocabulary=400 if kind == "bytes" else 80, **settings)
    return Tokenizer.train(TEXTS, config, (MASK,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lowercase", [False, True])
def test_a_mask_leaves_the_tokens_around_it_as_they_are(kind: str, lowercase: bool):
    made = tokenizer(kind, lowercase=lowercase)
    ids = encode_masked(made, "The [MASK] drinks milk.").ids
    before, after = ids[: ids.index(made.mask_id)], ids[ids.index(made.mask_id) + 1 :]
    whole = made.encode("The cat drinks milk.")
    assert before == whole[: len(before)]
    assert after == whole[len(whole) - len(after) :]
    without = made.decode(whole).replace("cat", "").replace(" ", "")
    assert made.decode([*before, *after]).replace(" ", "") == without


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "masks"),
    [("[MASK]", 1), ("[MASK] [MASK]", 2), ("[MASK][MASK][MASK]", 3), ("A [MASK], a [MASK]!", 2), ("no", 0)],
)
def test_every_mask_becomes_one_token(kind: str, text: str, masks: int):
    made = tokenizer(kind)
    ids = encode_masked(made, text).ids
    assert ids.count(made.mask_id) == masks


@pytest.mark.parametrize("kind", WITH_SPACES)
def test_a_mask_stands_for_the_space_before_it_too(kind: str):
    made = tokenizer(kind)
    ids = encode_masked(made, "drink [MASK]").ids
    assert ids == [*made.encode("drink"), made.mask_id]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "word", "wordpiece"])
@pytest.mark.parametrize("text", ["The cat, drinks  MILK: 日本!", "cat", " cat.", "the cat cat"])
def test_filling_masks_with_what_they_hide_gives_the_text_again(kind: str, text: str):
    made = tokenizer(kind)
    masked = encode_masked(made, text.replace("cat", "[MASK]"))
    piece = made.pieces(made.encode("a cat"))[-1]
    if piece.strip("▁") != "cat":
        pytest.skip("cat is no token here")
    assert masked.filled([piece] * len(masked.spans)).lstrip() == text.lstrip()


def test_the_mask_token_survives_saving_and_no_text_produces_it(tmp_path):
    made = tokenizer("bpe")
    made.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.mask_id == made.mask_id == len(SPECIAL_TOKENS)
    for text in (MASK, "[MASK]", "a <mask> b"):
        assert made.mask_id not in made.encode(text)


def test_a_tokenizer_without_a_mask_token_is_refused():
    plain = Tokenizer.train(TEXTS, TokenizerConfig(vocabulary=80))
    assert plain.mask_id is None
    with pytest.raises(ModelError, match="the tokenizer has no mask token"):
        encode_masked(plain, "a [MASK]")
