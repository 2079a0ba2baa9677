"""An extended tokenizer spells new text, and old text as before."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import SettingsError
from clearhead.text.extension import Extension, extend
from clearhead.text.kinds import PLACEHOLDERS
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import UNK, Tokenizer, TokenizerConfig

from .conftest import LETTERS, PUNCTUATION, SENTENCES, TAGS

CZECH = [
    "Dva mladí bílí muži jsou venku poblíž mnoha keřů.",
    "Několik mužů v ochranných přilbách obsluhuje kladkový systém.",
    "Malá dívka leze do dřevěného hracího domku.",
    "Muž v modré košili stojí na žebříku a myje okno.",
    "Dva muži jsou u plotny a připravují jídlo.",
] * 10
NEW = ("<2cs>", *PLACEHOLDERS)
# Of the first built-in translator: without byte fallback and placeholders.
OLD = Path(__file__).parents[1] / "first_edition" / "en-de-fr.tokenizer.json"


@pytest.fixture(scope="module")
def old() -> Tokenizer:
    return Tokenizer.load(OLD)


@pytest.fixture(scope="module")
def extension(old: Tokenizer) -> Extension:
    return extend(old, iter(CZECH), NEW)


def test_an_old_tokenizer_spells_czech_after_extension(old: Tokenizer, extension: Extension):
    tokenizer = extension.tokenizer
    assert old.decode(old.encode(CZECH[0])) != CZECH[0]
    for text in [*CZECH, "žluťoučký kůň 漢字 🙂 = _ * {x}"]:
        ids = tokenizer.encode(text)
        assert UNK not in ids
        assert tokenizer.decode(ids) == text
    assert tokenizer.pieces(tokenizer.encode("Dva muži"))[-1] == "▁muži"


def test_old_ids_stay(old: Tokenizer, extension: Extension):
    new = extension.tokenizer.vocabulary()
    assert extension.first == old.size
    assert {token: new[token] for token in old.vocabulary()} == old.vocabulary()
    assert sorted(new.values()) == list(range(old.size + len(extension.parts)))
    assert all(
        part < extension.first + index for index, parts in enumerate(extension.parts) for part in parts
    )


@given(text=st.text(st.sampled_from(LETTERS + PUNCTUATION + "éèàç   \n")))
def test_text_that_could_be_spelled_has_the_same_ids(old: Tokenizer, extension: Extension, text: str):
    before = old.encode(text)
    if UNK not in before:
        assert extension.tokenizer.encode(text) == before


@given(text=st.text(st.characters(codec="utf-8")))
def test_every_normalized_text_comes_back(extension: Extension, text: str):
    tokenizer = extension.tokenizer
    assert tokenizer.decode(tokenizer.encode(text)) == normalize(normalize(text).replace("▁", "_"))


def test_added_special_tokens_are_special(old: Tokenizer, extension: Extension):
    tokenizer = extension.tokenizer
    tag = tokenizer.special_id("<2cs>")
    assert (tag, tokenizer.placeholder_ids) == (
        old.size,
        tuple(range(old.size + 1, old.size + 9)),
    )
    assert tokenizer.special_tokens == old.special_tokens
    ids = tokenizer.encode("Dva <2cs> muži <p0>")
    assert tokenizer.special_ids.isdisjoint(ids)
    assert tokenizer.decode([tag, *ids, tokenizer.placeholder_ids[0]]) == "Dva <2cs> muži <p0>"
    assert tokenizer.words([[tag, *tokenizer.encode("muži")]]) == [[[tag], tokenizer.encode("muži")]]
    again = extend(tokenizer, CZECH, NEW)
    assert again.parts == ()
    assert again.tokenizer.vocabulary() == tokenizer.vocabulary()


def test_an_extended_tokenizer_can_be_saved_and_loaded(extension: Extension):
    tokenizer = extension.tokenizer
    loaded = Tokenizer.from_json(tokenizer.to_json())
    assert loaded.to_json() == tokenizer.to_json()
    assert (loaded.fingerprint, loaded.special_ids) == (tokenizer.fingerprint, tokenizer.special_ids)
    assert loaded.encode_batch(CZECH) == tokenizer.encode_batch(CZECH)
    assert loaded.to_huggingface() == tokenizer.to_huggingface()


def test_letters_start_from_their_base_letter_and_subwords_from_their_parts(extension: Extension):
    ids = extension.tokenizer.vocabulary()
    of = {
        token: extension.parts[number - extension.first]
        for token, number in ids.items()
        if number >= extension.first
    }
    assert of["ž"] == (ids["z"],)
    assert of["<2cs>"] == (ids["<2de>"], ids["<2en>"], ids["<2fr>"])
    assert (of["<p0>"], of["<0xC5>"]) == ((), ())
    left, right = of["▁muži"]
    tokens = {number: token for token, number in ids.items()}
    assert tokens[left] + tokens[right] == "▁muži"


def test_the_number_of_new_tokens_is_limited(old: Tokenizer):
    bytes_only = extend(old, CZECH, new_tokens=0)
    assert bytes_only.tokenizer.size == old.size + 256
    assert bytes_only.tokenizer.decode(bytes_only.tokenizer.encode(CZECH[0])) == CZECH[0]
    assert extend(old, CZECH, new_tokens=20).tokenizer.size == old.size + 256 + 20


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "bytes"])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_every_kind_with_bytes_can_be_extended(kind: str, byte_fallback: bool):
    settings = {"kind": kind, "vocabulary": 600, "byte_fallback": byte_fallback and kind != "bytes"}
    trained = Tokenizer.train(SENTENCES, TokenizerConfig.model_validate(settings), TAGS)
    tokenizer = extend(trained, CZECH, ["<2cs>"]).tokenizer
    for text in CZECH:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_batch(SENTENCES) == trained.encode_batch(SENTENCES)
    assert tokenizer.special_id("<2cs>") == trained.size


@pytest.mark.parametrize("kind", ["word", "whitespace", "wordpiece"])
def test_other_kinds_cannot_be_extended(kind: str):
    trained = Tokenizer.train(SENTENCES, TokenizerConfig.model_validate({"kind": kind, "vocabulary": 600}))
    with pytest.raises(SettingsError, match=f"tokenizer: is of kind {kind} and cannot be extended"):
        extend(trained, CZECH)
