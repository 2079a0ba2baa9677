"""Text becomes ids and comes back, whatever the kind of tokenizer."""

import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import parse_settings
from clearhead.errors import DataError, SettingsError, TextError
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import END, PAD, SPECIALS, START, UNKNOWN, Tokenizer, TokenizerConfig

from .conftest import LETTERS, SENTENCES, SIGNS, TAGS, tokenizer_of

KINDS = ["bpe", "unigram", "word", "character", "bytes"]
known_text = st.text(st.sampled_from(LETTERS + SIGNS + "   \u00a0\n"))
any_text = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("<>/s2depadunk ▁￭")))


def trained(texts: list[str] | Iterator[str], **settings: object) -> Tokenizer:
    return Tokenizer.train(texts, TokenizerConfig.model_validate(settings))


def test_a_sentence_comes_back_as_it_was(tokenizer: Tokenizer):
    for sentence in map(normalize, SENTENCES):
        assert tokenizer.decode(tokenizer.encode(sentence)) == sentence


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
@given(text=known_text)
def test_text_of_known_characters_comes_back_normalised(kind: str, text: str):
    tokenizer = tokenizer_of(kind)
    assert tokenizer.decode(tokenizer.encode(text)) == normalize(text)


@given(st.lists(st.sampled_from(["dog", "the", "ist", "fox", "Hund", *".,!?'()–\""]), max_size=8), st.data())
def test_words_come_back_with_their_signs_in_place(parts: list[str], data: st.DataObject):
    text = normalize("".join(part + data.draw(st.sampled_from(["", " "])) for part in parts))
    every = Tokenizer.train([text or "a"], TokenizerConfig(kind="word"))
    assert every.decode(every.encode(text)) == text


@given(any_text)
def test_bytes_lose_nothing(text: str):
    tokenizer = tokenizer_of("bytes")
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@given(text=any_text)
def test_no_text_produces_a_special_token_but_unknown(kind: str, text: str):
    tokenizer = tokenizer_of(kind)
    special = set(range(len(SPECIALS) + len(TAGS))) - {UNKNOWN}
    assert not special.intersection(tokenizer.encode(text))
    assert not special.intersection(tokenizer.encode_batch([text])[0])


@pytest.mark.parametrize("token", [*SPECIALS, *TAGS])
def test_a_special_token_written_by_a_user_is_ordinary_text(tokenizer: Tokenizer, token: str):
    ids = tokenizer.encode(f"a {token} b")
    assert set(ids).isdisjoint({PAD, START, END, tokenizer.id("<2de>")})
    if tokenizer.config.kind != "word":
        assert tokenizer.decode(ids) == f"a {token} b"


def test_special_tokens_and_tags_have_the_first_ids(tokenizer: Tokenizer):
    assert [tokenizer.id(token) for token in (*SPECIALS, *TAGS)] == list(range(6))
    assert (PAD, UNKNOWN, START, END) == (0, 1, 2, 3)
    assert tokenizer.specials == (*SPECIALS, *TAGS)
    assert tokenizer.id("<2fr>") is None


def test_decoding_skips_special_tokens(tokenizer: Tokenizer):
    ids = tokenizer.encode("Der Hund")
    assert tokenizer.decode([START, 5, *ids, END, PAD, PAD]) == "Der Hund"
    assert tokenizer.decode([]) == tokenizer.decode([START, END]) == ""


def test_every_id_lies_below_the_size(tokenizer: Tokenizer):
    assert max(max(ids) for ids in tokenizer.encode_batch(SENTENCES)) < tokenizer.size <= 600


def test_many_texts_at_once_equal_one_by_one(tokenizer: Tokenizer):
    texts = [*SENTENCES, "", " ", "\ufeff"]
    if tokenizer.config.kind != "bytes":
        texts.append("half \ud83d a character")
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_a_text_of_blanks_has_no_tokens(of_kind: Callable[[str], Tokenizer]):
    for kind in ("bpe", "unigram", "word", "character"):
        assert of_kind(kind).encode(" \t\n\u00a0") == []


def test_pieces_can_be_read(of_kind: Callable[[str], Tokenizer]):
    def shown(kind: str, text: str) -> list[str]:
        return of_kind(kind).pieces([START, *of_kind(kind).encode(text), END])

    assert shown("word", "Und wie geht es?") == ["<s>", "Und", "wie", "geht", "es", "￭?", "</s>"]
    assert shown("character", "a b") == ["<s>", "a", "▁", "b", "</s>"]
    assert "".join(shown("bpe", "Und wie?")) == "<s>▁Und▁wie?</s>"
    assert shown("bytes", " \nŧ") == ["<s>", "▁", "↵", "\\xc5", "\\xa7", "</s>"]


def test_pieces_refuse_an_id_beyond_the_vocabulary(tokenizer: Tokenizer):
    with pytest.raises(
        TextError, match=f"id 9999 is not in the vocabulary, which ends at {tokenizer.size - 1}"
    ):
        tokenizer.pieces([9999])


def test_words_are_the_same_word_beside_any_sign(of_kind: Callable[[str], Tokenizer]):
    tokenizer = of_kind("word")
    assert tokenizer.pieces(tokenizer.encode('(dog), "dog!')) == ["(￭", "dog", "￭)", "￭,", '"￭', "dog", "￭!"]


def test_the_marks_of_pieces_become_what_looks_like_them():
    tokenizer = trained(["_ ■ a"], kind="bpe")
    assert tokenizer.decode(tokenizer.encode("a▁a")) == "a_a"
    tokenizer = trained(["_ ■ a"], kind="word")
    assert tokenizer.decode(tokenizer.encode("￭ a")) == "■ a"


def test_lower_case_is_learned_and_written():
    for kind in KINDS:
        tokenizer = trained(["Über HUND und Hund"], kind=kind, lowercase=True)
        assert tokenizer.decode(tokenizer.encode("ÜBER Hund")) == "über hund"


def test_normalisation_can_be_asked_for_or_left_out():
    text = "one\n\n  two\u00a0three "
    asked = trained([text], kind="bytes", normalize=True)
    assert asked.decode(asked.encode(text)) == normalize(text)
    for kind in ("bpe", "unigram", "character"):
        tokenizer = trained([text], kind=kind, normalize=False)
        for spaced in (text, " one", "  one", "\none\n"):
            assert tokenizer.decode(tokenizer.encode(spaced)) == spaced


def test_unknown_characters_become_unknown(of_kind: Callable[[str], Tokenizer]):
    for kind in ("bpe", "unigram", "word", "character"):
        assert UNKNOWN in of_kind(kind).encode("漢")
    assert of_kind("bpe").encode("漢字漢").count(UNKNOWN) == 1
    assert of_kind("character").encode("漢字漢") == [UNKNOWN] * 3


def test_half_a_character_is_refused_where_nothing_may_be_lost(of_kind: Callable[[str], Tokenizer]):
    with pytest.raises(
        TextError, match=r"character 2 of the text is half a character \(U\+D83D\); read the text"
    ):
        of_kind("bytes").encode("ab\ud83d")
    assert of_kind("bpe").encode("ab\ud83d") == of_kind("bpe").encode("ab")


def test_training_reads_a_stream_once_and_lazily():
    read = []

    def stream() -> Iterator[str]:
        for number in range(5000):
            read.append(number)
            yield f"text number {number}"

    assert trained(stream(), kind="bpe", vocabulary=100).size == 100
    assert read == list(range(5000))


@pytest.mark.parametrize("kind", ["bpe", "word", "character", "bytes"])
def test_the_same_texts_give_the_same_tokenizer(kind: str):
    assert (
        tokenizer_of(kind).to_json() == Tokenizer.train(SENTENCES, tokenizer_of(kind).config, TAGS).to_json()
    )


def test_another_process_learns_the_same_tokenizer(tmp_path: Path):
    """Hash seeds and the number of threads differ between processes; pairs of equal counts must not mind."""
    words = [f"{a}{b}{c}" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx€漢字"]
    texts = tmp_path / "texts"
    texts.write_text("\n".join(words), encoding="utf-8")
    program = (
        "import sys; from pathlib import Path;"
        "from clearhead.text.tokenizer import Tokenizer, TokenizerConfig;"
        "lines = iter(Path(sys.argv[1]).read_text(encoding='utf-8').splitlines());"
        "print(Tokenizer.train(lines, TokenizerConfig(vocabulary=150, alphabet=26)).fingerprint)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program, str(texts)],
            env={**os.environ, "TOKENIZERS_PARALLELISM": parallel},
            capture_output=True,
            text=True,
            check=True,
        )
        for parallel in ("true", "false")
    ]
    here = trained(words, vocabulary=150, alphabet=26)
    assert {run.stdout.strip() for run in runs} == {here.fingerprint}


def test_a_text_too_small_for_the_vocabulary_gives_a_smaller_one(tokenizer: Tokenizer):
    small = trained(["a b a b"], kind=tokenizer.config.kind, vocabulary=5000)
    assert small.size < 300
    assert small.decode(small.encode("a b")) == "a b"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " ", "\n"], ["\ufeff", "\u200b"]])
def test_nothing_cannot_be_learned_from(kind: str, texts: list[str]):
    if kind == "bytes" and texts and texts[0]:
        pytest.skip("to bytes, an invisible character is text")
    with pytest.raises(
        DataError, match="tokenizer: no text to learn from; every line of the training text is empty"
    ):
        trained(texts, kind=kind)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "bpe",
            "vocabulary 20 cannot hold 27 characters of the text and 4 special tokens; raise it, or set",
        ),
        ("character", "vocabulary 20 cannot hold 26 characters of the text and 4 special tokens; raise it"),
        ("unigram", "vocabulary 20 cannot hold all characters of the text; raise it"),
        ("bytes", "vocabulary 20 cannot hold 256 characters of the text and 4 special tokens; raise it"),
    ],
)
def test_a_vocabulary_smaller_than_the_alphabet_is_refused(kind: str, message: str):
    with pytest.raises(SettingsError, match=message):
        trained(["abcdefghijklmnopqrstuvwxyz"] * 3, kind=kind, vocabulary=20)


@pytest.mark.parametrize("kind", ["bpe", "character"])
def test_a_limited_alphabet_keeps_the_frequent_characters(kind: str):
    texts = ["abc" * 5, "de", "漢字"]
    for given_texts in (texts, iter(texts)):
        tokenizer = Tokenizer.train(
            given_texts, TokenizerConfig.model_validate({"kind": kind, "alphabet": 5, "vocabulary": 40})
        )
        assert UNKNOWN not in tokenizer.encode("abc")
        assert UNKNOWN in tokenizer.encode("漢")


def test_an_error_in_the_stream_of_texts_comes_through():
    def broken() -> Iterator[str]:
        yield "one"
        raise DataError("pairs.tsv, line 2: not UTF-8")

    for kind in KINDS:
        with pytest.raises(DataError, match=r"pairs.tsv, line 2: not UTF-8"):
            trained(broken(), kind=kind)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"kind": "sentencepiece"},
            "kind: 'sentencepiece' is not one of bpe, unigram, word, character, bytes",
        ),
        ({"vocabulary": 4}, "vocabulary: 4 should be greater than 4"),
        ({"dropout": 1.5}, "dropout: 1.5 should be less than or equal to 1"),
        (
            {"kind": "word", "dropout": 0.1},
            "dropout drops merges, which kind word does not have; use kind bpe or bytes",
        ),
        ({"kind": "bytes", "alphabet": 50}, "alphabet cannot limit kind bytes; use kind bpe or character"),
        (
            {"kind": "word", "normalize": False},
            "normalize cannot be false with kind word, which keeps no spaces",
        ),
    ],
)
def test_wrong_settings_are_refused(values: dict[str, object], message: str):
    with pytest.raises(SettingsError) as error:
        parse_settings(TokenizerConfig, values)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["de"], "tokenizer: tag 'de' is not of the form <2de>"),
        (["<>"], "tokenizer: tag '<>' is not of the form <2de>"),
        (["<2de>", "<2de>"], "tokenizer: tag <2de> is given twice; name each tag once"),
        (["</s>"], "tokenizer: tag </s> is given twice; name each tag once"),
    ],
)
def test_wrong_tags_are_refused(tags: list[str], message: str):
    with pytest.raises(SettingsError) as error:
        Tokenizer.train(["text"], TokenizerConfig(), tags)
    assert str(error.value) == message


def test_a_copy_sent_to_another_process_encodes_the_same(tokenizer: Tokenizer):
    copied = pickle.loads(pickle.dumps(tokenizer))
    assert copied.encode_batch(SENTENCES) == tokenizer.encode_batch(SENTENCES)
    assert copied.fingerprint == tokenizer.fingerprint


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_processes_encode_without_a_warning(
    of_kind: Callable[[str], Tokenizer], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    tokenizer = of_kind("bpe")
    expected = tokenizer.encode_batch(SENTENCES)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(tokenizer.encode_batch, [SENTENCES] * 4) == [expected] * 4
    assert tokenizer.encode_batch(SENTENCES) == expected
    assert capfd.readouterr().err == ""
    assert "TOKENIZERS_PARALLELISM" not in os.environ


@pytest.mark.parametrize("kind", KINDS)
@given(text=any_text)
def test_a_text_as_it_is_spelled_has_the_ids_of_the_text(kind: str, text: str):
    tokenizer = tokenizer_of(kind)
    assert tokenizer.encode(tokenizer.normalized(text)) == tokenizer.encode(text)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_words_group_tokens_as_words_do(kind: str):
    tokenizer = tokenizer_of(kind)
    for sentence in SENTENCES:
        ids, numbers = tokenizer.encode(sentence), tokenizer.word_numbers(sentence)
        groups = [
            [one for one, at in zip(ids, numbers, strict=True) if at == number]
            for number in sorted(set(numbers))
        ]
        assert groups == tokenizer.words([ids])[0]


def test_an_unknown_sign_does_not_take_the_words_beside_it_apart():
    tokenizer = tokenizer_of("bpe")
    pieces = tokenizer.pieces(tokenizer.encode(f"{SENTENCES[0]} \U0001f600"))
    numbers = tokenizer.word_numbers(f"{SENTENCES[0]} \U0001f600")
    assert pieces[-1] == "<unk>"
    alone = tokenizer.word_numbers(SENTENCES[0])
    assert numbers[: len(alone)] == alone
    assert numbers[-1] == alone[-1] + 1


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_spelled_as_the_text_spells_them(kind: str):
    tokenizer = tokenizer_of(kind)
    for sentence in SENTENCES:
        spelled = [tokenizer.decode(ids).strip() for ids in tokenizer.words([tokenizer.encode(sentence)])[0]]
        assert tokenizer.word_texts(sentence) == spelled
        assert len(spelled) == max(tokenizer.word_numbers(sentence)) + 1


def test_an_unknown_word_is_spelled_as_the_text_spells_it():
    tokenizer = tokenizer_of("bpe")
    assert tokenizer.word_texts(f"  {SENTENCES[0]}  我们 ")[-1] == "我们"
