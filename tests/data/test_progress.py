"""Progress reports cover every byte of the files, however they are compressed and read."""

import gzip
import lzma
from pathlib import Path

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from clearhead.data.progress import track_progress
from clearhead.data.sources.corpus import pair_files, read_pairs
from clearhead.data.sources.documents import files, read_documents
from clearhead.errors import DataError

LINES = [f"sentence number {number}\tSatz Nummer {number}" for number in range(30_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


class Recorder:
    """Records all reports."""

    def __init__(self) -> None:
        self.reports: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.reports.append((done, total))

    @property
    def positions(self) -> list[int]:
        return [done for done, _ in self.reports]


def written(folder: Path, name: str, content: bytes = TEXT) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("name", ["a.txt", "a.en-de.tsv"])
def test_every_byte_of_a_file_is_reported_in_order(tmp_path, name, suffix):
    path, recorder = written(tmp_path, name + suffix, COMPRESSORS[suffix](TEXT)), Recorder()
    with track_progress([path], recorder):
        for _ in read_documents([path]) if name == "a.txt" else read_pairs(path, ("en", "de")):
            pass
        read = recorder.positions[-1]
    size = path.stat().st_size
    assert read == size
    assert recorder.positions == sorted(recorder.positions)
    assert {total for _, total in recorder.reports} == {size}


def test_several_files_are_reported_as_one(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        written(tmp_path, name)
    recorder = Recorder()
    with track_progress(files(tmp_path), recorder):
        list(read_documents([tmp_path]))
        assert recorder.reports[-1] == (3 * len(TEXT), 3 * len(TEXT))
    both, recorder = (tmp_path / "a.txt", tmp_path / "b.txt"), Recorder()
    with track_progress(pair_files(both), recorder):
        list(read_pairs(both, ("en", "de")))
        assert recorder.reports[-1] == (2 * len(TEXT), 2 * len(TEXT))


def test_rows_of_parquet_are_reported_by_their_share(tmp_path):
    path, recorder = tmp_path / "a.parquet", Recorder()
    parquet.write_table(pyarrow.table({"text": LINES}), path)
    size = path.stat().st_size
    with track_progress([path], recorder):
        list(read_documents([path]))
        assert size - len(recorder.reports) <= recorder.positions[-1] <= size
    assert len(recorder.reports) > 3


def test_a_second_pass_starts_at_zero_even_after_a_partial_one(tmp_path):
    for name in ("a.txt", "b.txt"):
        written(tmp_path, name)
    recorder = Recorder()
    with track_progress(files(tmp_path), recorder):
        list(read_documents([tmp_path]))
        first = recorder.positions.copy()
        next(read_documents([tmp_path]))
        before = len(recorder.positions)
        list(read_documents([tmp_path]))
    assert len(first) < before
    assert recorder.positions[before:-1] == first


def test_completion_is_reported_after_an_error_and_nothing_after_that(tmp_path):
    path, recorder = written(tmp_path, "a.txt", TEXT + b"\0"), Recorder()
    with pytest.raises(DataError, match="contains NUL bytes"), track_progress([path], recorder):
        list(read_documents([path]))
    assert recorder.reports[-1] == (len(TEXT) + 1, len(TEXT) + 1)
    count = len(recorder.reports)
    next(read_documents([path]))
    assert len(recorder.reports) == count
