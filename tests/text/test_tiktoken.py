"""Files of the tiktoken library give the ids that library gives."""

import base64
import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import ModelError
from clearhead.text.tiktoken import PATTERN, read_ranks
from clearhead.text.tokenizer import Tokenizer

TEXTS = [
    "Once upon a time",
    "I'm fine, thanks. They'LL say we've 12345 reasons…",
    "Straße, naïve café; 漢字かな交じり文 — 👩‍👩‍👧 🎉",
    "def f(x):\n\treturn x  +  1\r\n\r\n\n   # done   \n",
    "   leading, trailing   ",
    "\x00\x01 control \u00a0 spaces\u202f!",
    "<|endoftext|> </s> <2de>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaa ------------------- \n\n\n\n\n\n",
    "",
]


def lines(tokens: list[bytes]) -> bytes:
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))


SMALL = [bytes([byte]) for byte in range(256)] + [
    b"he",
    b"ll",
    b"hell",
    b"hello",
    b" w",
    b"or",
    b" wor",
    b"aa",
    b"aaa",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "small.tiktoken"
    path.write_bytes(lines(SMALL))
    return path


@pytest.fixture(scope="session")
def cl100k(measuring_data: Path) -> Tokenizer:
    return Tokenizer.from_tiktoken(measuring_data / "tokenizers" / "cl100k_base.tiktoken.xz")


@pytest.fixture(scope="session")
def their_cl100k(measuring_data: Path) -> Any:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = read_ranks(measuring_data / "tokenizers" / "cl100k_base.tiktoken.xz")
    return tiktoken.Encoding("cl100k", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def test_the_lowest_rank_merges_first(small: Path):
    tokenizer = Tokenizer.from_tiktoken(small)
    assert tokenizer.pieces(tokenizer.encode("hello hell wor")) == ["hello", "▁", "hell", "▁wor"]
    assert tokenizer.encode("!") == [33]


@pytest.mark.parametrize(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_a_compressed_file_gives_the_same_tokenizer(small: Path, tmp_path: Path, suffix: str, compress):
    compressed = tmp_path / f"small.tiktoken{suffix}"
    compressed.write_bytes(compress(small.read_bytes()))
    assert Tokenizer.from_tiktoken(compressed).fingerprint == Tokenizer.from_tiktoken(small).fingerprint


def test_a_tiktoken_tokenizer_has_the_ids_of_its_file_and_no_special_tokens(small: Path):
    tokenizer = Tokenizer.from_tiktoken(small)
    assert tokenizer.special_tokens == ()
    assert tokenizer.size == len(SMALL)
    assert tokenizer.decode([0, 1, 2, 3]) == "\x00\x01\x02\x03"


def test_a_tiktoken_tokenizer_can_be_saved_and_loaded(small: Path, tmp_path: Path):
    tokenizer = Tokenizer.from_tiktoken(small)
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.to_json() == tokenizer.to_json()
    assert loaded.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)


@settings(max_examples=200)
@given(text=st.text(st.one_of(st.sampled_from("helo wra\n"), st.characters(codec="utf-8"))))
def test_a_small_file_agrees_with_tiktoken(small: Path, text: str):
    tiktoken = pytest.importorskip("tiktoken")
    theirs = tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=read_ranks(small), special_tokens={})
    tokenizer = Tokenizer.from_tiktoken(small)
    assert tokenizer.encode(text) == theirs.encode_ordinary(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_once_upon_a_time_has_the_ids_of_the_lecture(cl100k: Tokenizer):
    assert cl100k.encode("Once upon a time") == [12805, 5304, 264, 892]
    assert cl100k.pieces([12805, 5304, 264, 892]) == ["Once", "▁upon", "▁a", "▁time"]
    assert cl100k.size == 100256


@pytest.mark.parametrize("text", TEXTS)
def test_cl100k_agrees_with_tiktoken(cl100k: Tokenizer, their_cl100k: Any, text: str):
    assert cl100k.encode(text) == their_cl100k.encode_ordinary(text)
    assert cl100k.decode(cl100k.encode(text)) == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"IQ== 0\nnot base64!! 1\n", r"line 2: 'not base64!! 1' is not a base64 token and its rank"),
        (b"IQ== 0\nIg==\n", r"line 2: 'Ig==' is not a base64 token and its rank"),
        (b"IQ== 0\n", "no rank for byte 0; the file is incomplete, download it again"),
        (b"", "no rank for byte 0; the file is incomplete, download it again"),
        (lines([*SMALL, b"hello there"]).replace(b" 265", b" 7"), "rank 7 occurs twice; download it again"),
        (lines(SMALL).replace(b" 264", b" -4"), "line 265: 'YWFh -4' is not a base64 token and its rank"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "broken.tiktoken"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"broken.tiktoken.*{message}"):
        Tokenizer.from_tiktoken(path)


def test_a_missing_or_truncated_file_is_named(small: Path, tmp_path: Path):
    with pytest.raises(ModelError, match=r"none.tiktoken: no such file"):
        Tokenizer.from_tiktoken(tmp_path / "none.tiktoken")
    cut = tmp_path / "cut.tiktoken.xz"
    cut.write_bytes(lzma.compress(small.read_bytes())[:300])
    with pytest.raises(
        ModelError, match=r"cut.tiktoken.xz: cut short or not compressed: .*; download it again"
    ):
        Tokenizer.from_tiktoken(cut)
