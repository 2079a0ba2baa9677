"""Public data sets by name, from the package, a mirror or the network."""

import io
import lzma
import tarfile
import urllib.error

import pytest

from clearhead.data.datasets import Dataset, list_datasets, shipped_file
from clearhead.data.download import get_dataset
from clearhead.data.sources.corpus import Pair, read_pairs
from clearhead.data.sources.streams import content_hash
from clearhead.errors import DataError


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A data set of two files in a mirror; gives the path of its archive and a function that packs it."""
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
        with tarfile.open(archive, "w:xz") as packed:
            for name, text in files.items():
                member = tarfile.TarInfo(name.replace("_", "."))
                member.size = len(text)
                packed.addfile(member, io.BytesIO(text.encode()))
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


def test_a_shipped_set_does_not_give_other_languages():
    with pytest.raises(DataError, match="tatoeba-en-de: holds en and de, not en and fr"):
        read_pairs("tatoeba-en-de", ("en", "fr"))


def test_every_data_set_says_its_licence_and_where_it_is():
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


def test_a_shipped_set_is_written_as_a_plain_file(tmp_path):
    [path] = get_dataset("tatoeba-en-de", tmp_path / "new")
    assert path.read_bytes() == lzma.decompress(shipped_file("tatoeba-en-de").read_bytes())


@pytest.mark.parametrize(("name", "files"), [("multi30k", 15), ("newstest", 6)])
def test_the_mirror_gives_the_published_files(measuring_data, monkeypatch, tmp_path, name, files):
    monkeypatch.setenv("CLEARHEAD_DATA", str(measuring_data))
    assert len(get_dataset(name, tmp_path)) == files


def test_a_mirror_gives_checked_files(tiny, tmp_path):
    tiny(train_en="yes\n", train_de="ja\n")
    assert [path.read_text() for path in get_dataset("tiny", tmp_path / "out")] == ["yes\n", "ja\n"]


def test_content_other_than_published_is_not_kept(tiny, tmp_path):
    tiny(train_en="no!\n", train_de="ja\n")
    with pytest.raises(DataError, match=r"train\.en: SHA-256 is .* as published; fetch it anew"):
        get_dataset("tiny", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_writes_nothing_but_what_the_table_names(tiny, tmp_path):
    with tarfile.open(tiny(), "w:xz") as packed:
        for name in ("../evil", "/tmp/evil", "train.fr"):
            packed.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("train.en")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        packed.addfile(link)
    with pytest.raises(DataError, match=r"tiny\.tar\.xz: lacks train"):
        get_dataset("tiny", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_an_archive_cut_short_is_refused(tiny, tmp_path):
    archive = tiny(train_en="yes\n", train_de="ja\n")
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(DataError, match=r"tiny\.tar\.xz: cut short or not a \.tar\.xz file"):
        get_dataset("tiny", tmp_path / "out")


def test_without_network_one_line_says_the_way_out(tiny, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", fails)
    with pytest.raises(DataError) as caught:
        get_dataset("tiny", tmp_path / "out")
    assert str(caught.value) == (
        "https://no.invalid/train.en: cannot be fetched (no route to host); check the network, "
        "or name a folder that holds a copy in CLEARHEAD_DATA"
    )


def test_a_download_is_checked_and_not_repeated(tiny, tmp_path, monkeypatch):
    asked = []

    def answers(url, timeout):
        asked.append(url)
        return io.BytesIO(b"yes\n" if url.endswith(".en") else b"ja\n")

    monkeypatch.setattr("urllib.request.urlopen", answers)
    for _ in range(2):
        assert [path.read_text() for path in get_dataset("tiny", tmp_path / "out")] == ["yes\n", "ja\n"]
    assert len(asked) == 2


def test_an_unknown_name_says_which_are_known(tmp_path):
    with pytest.raises(DataError, match="wmt: no such data set; there are tatoeba-en-de, "):
        get_dataset("wmt", tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file: cannot be written \(File exists\)"):
        get_dataset("tatoeba-en-de", tmp_path / "file")
