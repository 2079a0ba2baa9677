"""Public datasets come from the package, a mirror or the network."""

import io
import lzma
import tarfile
import urllib.error
from dataclasses import replace

import pytest

from clearhead.data import download
from clearhead.data.datasets import Dataset, list_datasets, shipped_file
from clearhead.data.download import get_dataset
from clearhead.data.sources.corpus import Pair, read_pairs
from clearhead.data.sources.streams import content_hash
from clearhead.errors import DataError


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A dataset of two files in a mirror; returns a function that writes its archive."""
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    archive = tmp_path / "tiny.tar.xz"
    sums = []
    for name, text in (("train.en", "yes\n"), ("train.de", "ja\n")):
        (tmp_path / name).write_text(text)
        sums.append(f"{content_hash(tmp_path / name)} {name}")
    dataset = Dataset(
        "tiny", ("en", "de"), "none", "tiny", archive.name, "https://no.invalid/{name}", "\n".join(sums)
    )
    monkeypatch.setattr("clearhead.data.download.DATASETS", (dataset,))

    def pack(**files: str):
        with tarfile.open(archive, "w:xz") as tar:
            for name, text in files.items():
                member = tarfile.TarInfo(name.replace("_", "."))
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text.encode()))
        return archive

    return pack


@pytest.mark.parametrize(
    ("name", "language", "count"), [("tatoeba-en-de", "de", 166_384), ("tatoeba-en-fr", "fr", 163_748)]
)
def test_the_shipped_pairs_are_complete_and_read_in_both_directions(name, language, count):
    there = read_pairs(name, ("en", language))
    back = read_pairs(name, (language, "en"))
    assert (
        sum(pair == Pair(other.target, other.source) for pair, other in zip(there, back, strict=True))
        == count
    )


def test_a_shipped_dataset_has_no_other_languages():
    with pytest.raises(DataError, match="tatoeba-en-de: holds en and de, not en and fr"):
        read_pairs("tatoeba-en-de", ("en", "fr"))


def test_every_dataset_has_a_licence_and_a_location():
    assert {data.name for data in list_datasets()} >= {
        "tatoeba-en-de",
        "tatoeba-en-fr",
        "multi30k",
        "newstest",
    }
    assert all(data.licence and data.description and data.where for data in list_datasets())
    assert (
        "www.manythings.org/anki and tatoeba.org"
        in (shipped_file("shakespeare").parent / "README.md").read_text()
    )


def test_a_shipped_dataset_is_written_as_a_plain_file(tmp_path):
    [path] = get_dataset("tatoeba-en-de", tmp_path / "new")
    assert path.read_bytes() == lzma.decompress(shipped_file("tatoeba-en-de").read_bytes())


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("multi30k", 15),
        ("newstest", 6),
        ("sst2", 6),
        ("trec", 4),
        ("imdb", 3),
        ("flickr8k", 5),
        ("squad", 2),
        ("babi", 39),
    ],
)
def test_the_mirror_holds_the_published_files(measuring_data, monkeypatch, tmp_path, name, files):
    monkeypatch.setenv("CLEARHEAD_DATA", str(measuring_data))
    assert len(get_dataset(name, tmp_path)) == files


def test_files_from_a_mirror_are_verified(tiny, tmp_path):
    tiny(train_en="yes\n", train_de="ja\n")
    assert [path.read_text() for path in get_dataset("tiny", tmp_path / "out")] == ["yes\n", "ja\n"]


def test_files_with_another_hash_are_not_kept(tiny, tmp_path):
    tiny(train_en="no!\n", train_de="ja\n")
    with pytest.raises(DataError, match=r"train\.en: SHA-256 is .* as published; download it again"):
        get_dataset("tiny", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_only_listed_files_are_extracted(tiny, tmp_path):
    with tarfile.open(tiny(), "w:xz") as tar:
        for name in ("../evil", "/tmp/evil", "train.fr"):
            tar.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("train.en")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(DataError, match=r"tiny\.tar\.xz: lacks train"):
        get_dataset("tiny", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_a_truncated_archive_is_rejected(tiny, tmp_path):
    archive = tiny(train_en="yes\n", train_de="ja\n")
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(DataError, match=r"tiny\.tar\.xz: cut short or not a \.tar\.xz file"):
        get_dataset("tiny", tmp_path / "out")


def test_a_failed_download_suggests_a_mirror(tiny, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", fails)
    with pytest.raises(DataError) as caught:
        get_dataset("tiny", tmp_path / "out")
    assert str(caught.value) == (
        "https://no.invalid/train.en: download failed (no route to host); check the network, "
        "or set CLEARHEAD_DATA to a folder that holds a copy"
    )


def test_a_download_is_verified_and_not_repeated(tiny, tmp_path, monkeypatch):
    requests = []

    def respond(url, timeout):
        requests.append(url)
        return io.BytesIO(b"yes\n" if url.endswith(".en") else b"ja\n")

    monkeypatch.setattr("urllib.request.urlopen", respond)
    for _ in range(2):
        assert [path.read_text() for path in get_dataset("tiny", tmp_path / "out")] == ["yes\n", "ja\n"]
    assert len(requests) == 2


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(DataError, match="wmt: no such dataset; choose from tatoeba-en-de, "):
        get_dataset("wmt", tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file: cannot be written \(File exists\)"):
        get_dataset("tatoeba-en-de", tmp_path / "file")


def test_a_mirror_may_hold_each_file_by_itself(tiny, monkeypatch, tmp_path):
    """Penn Treebank's mirror is a folder of .xz files."""
    mirror, out = tmp_path / "mirror" / "tiny", tmp_path / "out"
    mirror.mkdir(parents=True)
    for name in ("train.en", "train.de"):
        (mirror / f"{name}.xz").write_bytes(lzma.compress((tmp_path / name).read_bytes()))
    [dataset] = download.DATASETS
    monkeypatch.setattr("clearhead.data.download.DATASETS", (replace(dataset, archive="tiny"),))
    monkeypatch.setenv("CLEARHEAD_DATA", str(mirror.parent))
    assert [path.read_text() for path in get_dataset("tiny", out)] == ["yes\n", "ja\n"]
    (mirror / "train.de.xz").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"train.de.xz: cut short or not an \.xz file"):
        get_dataset("tiny", out)
    (mirror / "train.de.xz").unlink()
    with pytest.raises(DataError, match=r"train.de.xz: is missing; copy it there, or unset CLEARHEAD_DATA"):
        get_dataset("tiny", out)
