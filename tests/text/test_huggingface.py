"""Tokenizers of Hugging Face folders: GPT-2 agrees with tiktoken, and broken files are named."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from clearhead.errors import ModelError
from clearhead.text.tokenizer import Tokenizer

from .conftest import tokenizer_of

ROWS = 50257
TEXTS = [
    "Once upon a time",
    "  two spaces, don't we'll I'VE\n\n\ttabs",
    "naïve café, 北京 🙂, Ünïcödé №42",
    "def f(x):\n    return x ** 2  # 3.14159",
    "<|endoftext|>",
]


@pytest.fixture(scope="module")
def files(measuring_data: Path, tmp_path_factory) -> Path:
    """GPT-2's vocabulary files under their usual names."""
    folder = tmp_path_factory.mktemp("gpt2")
    for theirs, ours in (("gpt2_encoder.json.xz", "vocab.json"), ("gpt2_vocab.bpe.xz", "merges.txt")):
        compressed = measuring_data / "tokenizers" / theirs
        if not compressed.is_file():
            pytest.skip(f"no {theirs} in the measuring data")
        (folder / ours).write_bytes(lzma.decompress(compressed.read_bytes()))
    return folder


@pytest.fixture(scope="module")
def theirs(files: Path) -> Any:
    tiktoken = pytest.importorskip("tiktoken")
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    ranks = data_gym_to_mergeable_bpe_ranks(str(files / "merges.txt"), str(files / "vocab.json"))
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


@pytest.mark.parametrize("text", TEXTS)
def test_gpt2_agrees_with_tiktoken(files: Path, theirs: Any, text: str):
    ours = Tokenizer.from_huggingface(files, ROWS)
    assert ours.encode(text) == theirs.encode_ordinary(text)
    assert ours.decode(ours.encode(text)) == text


def test_gpt2_knows_its_special_token_and_no_text_produces_it(files: Path, tmp_path):
    tokenizer = Tokenizer.from_huggingface(files, ROWS)
    assert tokenizer.encode("Once upon a time") == [7454, 2402, 257, 640]
    assert tokenizer.id("<|endoftext|>") == tokenizer.size - 1 == ROWS - 1
    assert tokenizer.decode([7454, ROWS - 1]) == "Once"
    tokenizer.save(tmp_path / "saved.json")
    assert Tokenizer.load(tmp_path / "saved.json").encode(TEXTS[2]) == tokenizer.encode(TEXTS[2])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no tokenizer; it needs tokenizer.json, or vocab.json and merges.txt"),
        ({"vocab.json": "{}"}, "no tokenizer; it needs tokenizer.json, or vocab.json and merges.txt"),
        ({"vocab.json": "{", "merges.txt": ""}, "vocab.json: does not form a tokenizer with merges.txt"),
        (
            {"vocab.json": '{"a": 0}', "merges.txt": "#version: 0.2\na b\n"},
            "vocab.json: does not form a tokenizer",
        ),
        ({"tokenizer.json": '{"a": 0}'}, "tokenizer.json: the tokenizer in it is broken"),
    ],
)
def test_broken_files_are_named(files: dict[str, str], message: str, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelError, match=message):
        Tokenizer.from_huggingface(tmp_path, 10)


def test_more_ids_than_embeddings_are_rejected(tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 11}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(
        ModelError, match="the tokenizer has id 11, but the model has embeddings for 10 ids only"
    ):
        Tokenizer.from_huggingface(tmp_path, 10)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
def test_an_exported_tokenizer_spells_in_bytes_too(kind: str, tmp_path: Path):
    """Only text that looks like a special token differs: Hugging Face's libraries take it for one."""
    ours = tokenizer_of(kind)
    files = ours.to_huggingface()
    theirs = tokenizers.Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    back = Tokenizer.from_huggingface(tmp_path, ours.size)
    for text in [*TEXTS, "  two ▁ spaces\n\ttabs <0x41> 漢字\u00a0"]:
        ids = ours.encode(text)
        assert theirs.encode(text, add_special_tokens=False).ids == back.encode(text) == ids
        assert theirs.decode(ids) == back.decode(ids) == ours.decode(ids) == text
        assert back.pieces(ids) == ours.pieces(ids)
