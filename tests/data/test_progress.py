"""Whoever follows the reading of files hears of every byte of them, however they are packed and read."""

import gzip
import lzma
from pathlib import Path

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from clearhead.data.progress import followed
from clearhead.data.sources.corpus import pair_files, read_pairs
from clearhead.data.sources.documents import files, read_documents
from clearhead.errors import DataError

LINES = [f"sentence number {number}\tSatz Nummer {number}" for number in range(30_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


class Heard:
    """What was told, in its order."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.told.append((done, total))

    @property
    def places(self) -> list[int]:
        return [done for done, _ in self.told]


def written(folder: Path, name: str, content: bytes = TEXT) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("name", ["a.txt", "a.en-de.tsv"])
def test_every_byte_of_a_file_is_told_in_its_order(tmp_path, name, packed):
    path, heard = written(tmp_path, name + packed, PACKERS[packed](TEXT)), Heard()
    with followed([path], heard):
        for _ in read_documents([path]) if name == "a.txt" else read_pairs(path, ("en", "de")):
            pass
        read = heard.places[-1]
    size = path.stat().st_size
    assert read == size
    assert heard.places == sorted(heard.places)
    assert {total for _, total in heard.told} == {size}


def test_files_of_a_folder_and_aligned_ones_are_told_as_one(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        written(tmp_path, name)
    heard = Heard()
    with followed(files(tmp_path), heard):
        list(read_documents([tmp_path]))
        assert heard.told[-1] == (3 * len(TEXT), 3 * len(TEXT))
    both, heard = (tmp_path / "a.txt", tmp_path / "b.txt"), Heard()
    with followed(pair_files(both), heard):
        list(read_pairs(both, ("en", "de")))
        assert heard.told[-1] == (2 * len(TEXT), 2 * len(TEXT))


def test_rows_of_parquet_are_told_by_their_share(tmp_path):
    path, heard = tmp_path / "a.parquet", Heard()
    parquet.write_table(pyarrow.table({"text": LINES}), path)
    size = path.stat().st_size
    with followed([path], heard):
        list(read_documents([path]))
        assert size - len(heard.told) <= heard.places[-1] <= size
    assert len(heard.told) > 3


def test_a_second_pass_begins_anew_also_after_a_short_look(tmp_path):
    for name in ("a.txt", "b.txt"):
        written(tmp_path, name)
    heard = Heard()
    with followed(files(tmp_path), heard):
        list(read_documents([tmp_path]))
        first = heard.places.copy()
        next(read_documents([tmp_path]))
        looked = len(heard.places)
        list(read_documents([tmp_path]))
    assert len(first) < looked
    assert heard.places[looked:-1] == first


def test_the_end_is_told_whatever_ends_it_and_nothing_after_it(tmp_path):
    path, heard = written(tmp_path, "a.txt", TEXT + b"\0"), Heard()
    with pytest.raises(DataError, match="holds NUL bytes"), followed([path], heard):
        list(read_documents([path]))
    assert heard.told[-1] == (len(TEXT) + 1, len(TEXT) + 1)
    told = len(heard.told)
    next(read_documents([path]))
    assert len(heard.told) == told
