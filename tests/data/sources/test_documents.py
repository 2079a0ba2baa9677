"""Documents come from plain files, folders, JSON Lines and Parquet."""

import gzip
import json
import lzma
import os

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from clearhead.data.sources.corpus import check_files
from clearhead.data.sources.documents import check_texts, read_documents, read_lines, texts_hash
from clearhead.data.sources.plain_text import BLANK, MAX_CHUNK, READ_SIZE, cut
from clearhead.errors import DataError
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig


def documents(*paths, field=None) -> list[str]:
    found, text = [], ""
    for chunk in read_documents(paths, field):
        text += chunk.text
        if chunk.last:
            found.append(text)
            text = ""
    assert not text
    return found


def test_a_plain_file_is_one_document(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfOne  line.\r\n\r\n Two\tlines.\n")
    assert documents(path) == ["One  line.\n\n Two\tlines.\n"]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gzip.compress), ("xz", lzma.compress), ("zst", zstandard.compress)],
)
def test_compressed_files_read_like_plain_ones(tmp_path, suffix, compress):
    path = tmp_path / f"a.txt.{suffix}"
    path.write_bytes(compress(b"some text\n" * 100_000))
    assert documents(path) == ["some text\n" * 100_000]


def test_prompts_with_answers_are_not_read_as_text(tmp_path):
    (tmp_path / "q.jsonl").write_text('{"prompt": "1", "answer": "2"}\n')
    with pytest.raises(DataError, match=r"or train a language model on the answers \(train: --set 'data"):
        list(read_documents([tmp_path / "q.jsonl"]))


def test_lines_of_json_and_rows_of_parquet_are_documents(tmp_path):
    texts = ["One.\nTwo.", "Three."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts))
    parquet.write_table(pyarrow.table({"story": texts}), tmp_path / "b.parquet")
    assert documents(tmp_path / "a.jsonl") == texts
    assert documents(tmp_path / "b.parquet", field="story") == texts
    with pytest.raises(
        DataError, match=r"b\.parquet: the field that holds the text is unclear; it has story"
    ):
        documents(tmp_path / "b.parquet")


def test_a_folder_gives_its_texts_by_name_without_blank_ones(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, text in (("b.txt", "second"), ("a.md", "first"), ("sub/c.txt", "third"), ("d.txt", " \n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    assert documents(tmp_path) == ["first", "second", "third"]
    with pytest.raises(DataError, match=r"no text in this folder; .* \.txt, .*, or be named one by one"):
        documents(_empty(tmp_path))


def _empty(folder):
    (folder / "none").mkdir()
    return folder / "none"


def test_problems_of_a_text_are_reported_with_their_line(tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\nnot \xff fine\n")
    with pytest.raises(DataError, match=r"bad\.txt, line 2: not UTF-8 \(byte 0xff at offset 9\)"):
        documents(bad)
    bad.write_bytes(b"fine\n" * READ_SIZE + b"a\0b\n")
    with pytest.raises(DataError, match=rf"bad\.txt, line {READ_SIZE + 1}: contains NUL bytes"):
        documents(bad)
    with pytest.raises(DataError, match=r"no\.txt: no such file or folder; shipped texts are shakespeare"):
        check_texts([tmp_path / "no.txt"])


@pytest.mark.parametrize("check", [check_texts, check_files])
def test_files_that_can_be_read_only_once_are_rejected_by_name(tmp_path, check):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(
        DataError, match=r"pipe\.txt: a pipe or a device can be read only once; write it to a file first"
    ):
        check([tmp_path / "pipe.txt"])
    with pytest.raises(DataError, match="-: standard input can be read only once; write it to a file first"):
        check(["-"])


def test_the_shipped_text_is_tiny_shakespeare():
    [text] = documents("shakespeare")
    assert len(text) == 1_115_394
    assert text.startswith("First Citizen:\n")
    assert texts_hash("shakespeare").startswith(".txt.xz:")


@pytest.mark.parametrize("kind", ["character", "bytes"])
def test_chunks_have_the_same_tokens_as_the_whole_text(kind):
    text = "".join("a word,  or 2\n\n its line's end \n"[:size] for size in range(33)) * 400
    config = TokenizerConfig(kind=kind, vocabulary=400, normalize=False)
    tokenizer = Tokenizer.train([text], config)
    chunks = list(cut(text[start : start + 7777] for start in range(0, len(text), 7777)))
    assert len(chunks) > 1
    assert "".join(chunks) == text
    assert [number for chunk in chunks for number in tokenizer.encode(chunk)] == tokenizer.encode(text)


def test_a_very_long_line_comes_in_chunks(tmp_path):
    path = tmp_path / "line.txt"
    path.write_text("x" * (3 * MAX_CHUNK) + " y" * MAX_CHUNK)
    chunks = list(read_documents([path]))
    assert max(len(chunk.text) for chunk in chunks) <= MAX_CHUNK + READ_SIZE
    assert sum(len(chunk.text) for chunk in chunks) == 5 * MAX_CHUNK
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_lines_are_documents_wherever_chunks_end(tmp_path):
    lines = [f"line {number} " + "word " * (number % 50) + "end" for number in range(3000)]
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines) + "\n\nlast", encoding="utf-8")
    found = list(read_lines(path))
    assert [chunk.text for chunk in found] == [*lines, "", "last"]
    assert all(chunk.last for chunk in found)
    assert found[-2] == BLANK
