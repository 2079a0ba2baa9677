"""Files of word2vec, text and binary, in and out."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import ModelError, SettingsError
from clearhead.interop.word2vec import export_vectors, import_vectors, read_vectors, write_vectors
from clearhead.tasks.load import load

WORDS = ["the", "Käse", "new_york", "x"]
MATRIX = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
LONG = [f"word{number}" for number in range(3000)]


@pytest.fixture(params=[".bin", ".txt", ".vec"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / f"vectors{request.param}"
    write_vectors(made, WORDS, MATRIX)
    return made


def bits(matrix: np.ndarray) -> bytes:
    return np.ascontiguousarray(matrix, dtype="<f4").tobytes()


def test_what_is_written_is_read_back_bit_for_bit(path: Path):
    words, matrix = read_vectors(path)
    assert words == WORDS
    assert bits(matrix) == bits(MATRIX)


def test_the_bytes_are_those_of_word2vec(tmp_path: Path):
    """The authors' program writes a word, a blank, the binary vector and a line feed."""
    write_vectors(tmp_path / "v.bin", ["a", "b"], np.array([[1, 2], [0.5, -1]], dtype=np.float32))
    floats = "0000803f00000040", "0000003f000080bf"
    expected = b"2 2\na " + bytes.fromhex(floats[0]) + b"\nb " + bytes.fromhex(floats[1]) + b"\n"
    assert (tmp_path / "v.bin").read_bytes() == expected
    write_vectors(tmp_path / "v.txt", ["a", "b"], np.array([[1, 2], [0.5, -1]], dtype=np.float32))
    assert (tmp_path / "v.txt").read_text() == "2 2\na 1.0 2.0\nb 0.5 -1.0\n"


def test_a_folder_and_a_file_hold_the_same_vectors(path: Path, tmp_path: Path):
    import_vectors(path, tmp_path / "model")
    model = load(tmp_path / "model")
    assert model.vocabulary.words == WORDS
    assert not model.vocabulary.lower
    assert bits(model.matrix.numpy()) == bits(MATRIX)
    assert (tmp_path / "model" / "README.md").exists()
    assert export_vectors(tmp_path / "model", tmp_path / f"again{path.suffix}") == (4, 5)
    assert (tmp_path / f"again{path.suffix}").read_bytes() == path.read_bytes()


def test_files_larger_than_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    matrix = np.random.default_rng(0).standard_normal((3000, 20)).astype(np.float32)
    write_vectors(tmp_path / "v.bin", LONG, matrix)
    monkeypatch.setattr("clearhead.interop.word2vec.READ_SIZE", 777)
    monkeypatch.setattr("clearhead.interop.word2vec.MAX_WORD", 30)
    words, read = read_vectors(tmp_path / "v.bin")
    assert words == LONG
    assert bits(read) == bits(matrix)


def test_compressed_files_are_read(path: Path, tmp_path: Path):
    packed = tmp_path / f"{path.name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert bits(read_vectors(packed)[1]) == bits(MATRIX)


@pytest.mark.parametrize("binary", [True, False])
def test_gensim_reads_ours_and_we_read_gensim(binary: bool, tmp_path: Path):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    ours, theirs = (tmp_path / f"{name}{'.bin' if binary else '.txt'}" for name in ("ours", "theirs"))
    write_vectors(ours, WORDS, MATRIX)
    loaded = models.KeyedVectors.load_word2vec_format(str(ours), binary=binary)
    assert loaded.index_to_key == WORDS
    assert bits(loaded.vectors) == bits(MATRIX)
    loaded.save_word2vec_format(str(theirs), binary=binary)
    words, matrix = read_vectors(theirs)
    assert sorted(words) == sorted(WORDS)
    assert all(bits(matrix[words.index(word)]) == bits(MATRIX[WORDS.index(word)]) for word in WORDS)


def changed(tmp_path: Path, name: str, content: bytes) -> Path:
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


ONE = np.ones(2, dtype="<f4").tobytes()
NAN = np.array([1, np.nan], dtype="<f4").tobytes()


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("v.txt", b"2 2\na 1 2\nb 1\n", "line 3: 1 numbers where line 1 says 2; copy the file again"),
        ("v.txt", b"2 2\na 1 2 3\nb 1 2\n", "line 2: 3 numbers where line 1 says 2"),
        ("v.txt", b"2 2\na 1 nan\nb 1 2\n", "vector 1 ('a'): nan is not a finite number"),
        ("v.txt", b"2 2\na 1 2\nb 1 -inf\n", "vector 2 ('b'): -inf is not a finite number"),
        ("v.txt", b"2 2\na 1 2\nb 1 x\n", "line 3: not a word and its numbers"),
        ("v.txt", b"2 2\na 1 2\na 1 3\n", "vector 2: 'a' is also vector 1; remove one"),
        ("v.txt", b"3 2\na 1.000 2.000\nb 1.000 3.000\n", "cut short after 2 of 3 vectors; copy it again"),
        (
            "v.txt",
            b"2 2\na 1 2\nb 1 3",
            "line 3: has no line feed at its end; it was cut short, or lacks only that",
        ),
        ("v.txt", b"1 2\na 1 2\nb 1 3\n", "line 3: a vector more than the 1 of line 1"),
        (
            "v.txt",
            b"99 200\na 1 2\n",
            "99 vectors of width 200 need at least 39,699 bytes, but the file has 13",
        ),
        ("v.txt", b"a 1 2\nb 3 4\n", "line 1: 'a 1 2' is not the number of words and the width"),
        ("v.txt", b"-1 2\n", "line 1: '-1 2' is not the number of words and the width"),
        ("v.txt", b"", "line 1: '' is not the number of words and the width"),
        ("v.txt", b"1 2\n\xff\xfe 1 2\n", "line 2: not a word and its numbers"),
        ("v.bin", b"3 2\na " + ONE + b"\nbbbbbbbbbb " + ONE, "cut short after 2 of 3 vectors; copy it again"),
        ("v.bin", b"2 2\na " + ONE + b"\nbbbbbbbbbbbb " + ONE[:3], "cut short after 1 of 2 vectors"),
        ("v.bin", b"2 2\na " + ONE, "2 vectors of width 2 need at least 18 bytes, but the file has 14"),
        ("v.bin", b"2 2\na " + ONE + b"\nb " + NAN + b"\n", "vector 2 ('b'): nan is not a finite number"),
        ("v.bin", b"2 2\na " + ONE + b"\na " + ONE + b"\n", "vector 2: 'a' is also vector 1"),
        ("v.bin", b"1 2\na " + ONE + b"\nb " + ONE + b"\n", "holds more than the 1 vectors of line 1"),
        ("v.bin", b"1 2\n\xff\xff " + ONE, "vector 1: not a word and its numbers"),
        ("v.npy", b"1 2\na 1 2\n", "unknown suffix; use .bin for binary, .txt or .vec for text"),
    ],
)
def test_a_damaged_file_is_one_line(name: str, content: bytes, error: str, tmp_path: Path):
    path = changed(tmp_path, name, content)
    with pytest.raises(ModelError) as raised:
        import_vectors(path, tmp_path / "out")
    assert str(raised.value).startswith(str(path))
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_file_cut_anywhere_is_refused(path: Path, tmp_path: Path):
    content = path.read_bytes()
    for size in range(len(content) - 2, 0, -7):
        with pytest.raises(ModelError):
            read_vectors(changed(tmp_path, f"cut{path.suffix}", content[:size]))


def test_what_cannot_be_written_is_refused(tmp_path: Path, gpt_model: Path):
    with pytest.raises(ModelError, match="'New York': a word with white space cannot be written"):
        write_vectors(tmp_path / "v.txt", ["New York"], MATRIX[:1])
    with pytest.raises(ModelError, match=r"is written uncompressed; leave out \.gz"):
        write_vectors(tmp_path / "v.bin.gz", WORDS, MATRIX)
    with pytest.raises(ModelError, match="holds no word vectors; only those can be exported to word2vec"):
        export_vectors(gpt_model, tmp_path / "v.bin")
    write_vectors(tmp_path / "v.bin", WORDS, MATRIX)
    import_vectors(tmp_path / "v.bin", tmp_path / "model")
    with pytest.raises(ModelError, match=r"v\.bin: already exists; choose another name"):
        export_vectors(tmp_path / "model", tmp_path / "v.bin")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(SettingsError, match="already exists and is not empty"):
        import_vectors(tmp_path / "v.bin", tmp_path / "full")
