"""An archive in another form becomes the files of a dataset."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clearhead.data import converters
from clearhead.data.datasets import Dataset
from clearhead.data.download import get_dataset
from clearhead.data.images import decode
from clearhead.data.sources.images import named_images
from clearhead.errors import DataError

REVIEWS = {
    "aclImdb/train/pos/2_9.txt": "fine",
    "aclImdb/train/pos/10_8.txt": "good\tindeed",
    "aclImdb/train/neg/0_3.txt": "bad<br />truly",
    "aclImdb/test/neg/1_1.txt": "böse",
    "aclImdb/train/unsup/0_0.txt": "who knows",
    "aclImdb/train/urls_pos.txt": "left out",
}
LISTING = "0 imdb_train.tsv 0 imdb_test.tsv 0 imdb_unlabelled.txt"


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A small archive of aclImdb's form, which every download returns."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in REVIEWS.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    address = "https://no.invalid/aclImdb_v1.tar.gz"
    dataset = Dataset("small", ("en",), "none", "small", "none", address, LISTING, "aclimdb")
    monkeypatch.setattr("clearhead.data.download.DATASETS", (dataset,))
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: io.BytesIO(content.getvalue()))
    return content.getvalue()


def test_reviews_become_lines_in_the_order_of_label_and_id(archive, monkeypatch, tmp_path: Path):
    convert = converters.aclimdb
    monkeypatch.setitem(
        converters.CONVERTERS, "aclimdb", lambda path: convert(path, hashlib.md5(archive).hexdigest())
    )
    written = {path.name: path.read_text(encoding="utf-8") for path in get_dataset("small", tmp_path)}
    assert written == {
        "imdb_train.tsv": "0\t0\t3\tbad<br />truly\n1\t2\t9\tfine\n1\t10\t8\tgood indeed\n",
        "imdb_test.tsv": "0\t1\t1\tböse\n",
        "imdb_unlabelled.txt": "who knows\n",
    }
    assert {path.name for path in tmp_path.iterdir()} == {*written}


def test_another_edition_of_the_archive_is_refused(archive, tmp_path: Path):
    with pytest.raises(DataError, match=r"aclImdb_v1\.tar\.gz: cut short or another edition"):
        get_dataset("small", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_image_files_become_archives_in_the_order_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(converters, "CIFAR10_SIZES", {"train": 3, "test": 1})
    files = {"train/bird/0002.jpg": b"bb", "train/bird/0001.jpg": b"a", "train/airplane/0009.jpg": b"ccc"}
    path = tmp_path / "images.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**files, "test/truck/0000.jpg": b"d", "README.md": b"x"}.items():
            member = tarfile.TarInfo(f"CIFAR-10-images-d7d0561/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    found = {name: np.load(io.BytesIO(content)) for name, content in converters.cifar10(path)}
    train = found["cifar10_train_jpeg.npz"]
    assert train["jpeg"].tobytes() == b"cccabb"
    assert (train["offsets"].tolist(), train["labels"].tolist()) == ([0, 3, 4, 6], [0, 2, 2])
    assert found["cifar10_test_jpeg.npz"]["labels"].tolist() == [9]
    monkeypatch.undo()
    with pytest.raises(DataError, match="cut short or another edition"):
        list(converters.cifar10(path))


def test_photographs_become_small_images_with_names(tmp_path: Path):
    with tarfile.open(tmp_path / "flickr.tar.gz", "w:gz") as tar:
        for name, size in (("b.jpg", (30, 20)), ("a.jpg", (200, 100))):
            content = io.BytesIO()
            Image.new("RGB", size, (200, 0, 0)).save(content, "JPEG")
            member = tarfile.TarInfo(f"repository/Flicker8k_Dataset/{name}")
            member.size = content.tell()
            tar.addfile(member, io.BytesIO(content.getvalue()))
        for name, text in (("Flickr8k.token.txt", b"a.jpg#0\tred\n"), ("readme.txt", b"no")):
            member = tarfile.TarInfo(f"repository/Flicker8k_text/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    made = dict(converters.flickr8k(tmp_path / "flickr.tar.gz"))
    assert sorted(made) == ["Flickr8k.token.txt", "flickr8k_96px_jpeg.npz"]
    (tmp_path / "images.npz").write_bytes(made["flickr8k_96px_jpeg.npz"])
    images = named_images(tmp_path / "images.npz")
    assert list(images) == ["a.jpg", "b.jpg"]
    assert all(decode(image).size == (96, 96) for image in images.values())


def test_squad_becomes_a_paragraph_per_line(tmp_path: Path):
    answers = [{"text": "1973", "answer_start": 4}, {"text": "1973", "answer_start": 9}]
    paragraph = {"context": "In 1973.", "qas": [{"id": "1", "question": "When?", "answers": answers}]}
    content = {"data": [{"title": "Oil", "paragraphs": [paragraph]}]}
    files = {"x/dataset/dev-v1.1.json": json.dumps(content), "x/dataset/dev-v2.0.json": "{}", "x/a.txt": "no"}
    [(name, lines)] = converters.squad(tarball(tmp_path / "squad.tar.gz", files))
    assert name == "squad1.1-dev.jsonl"
    [record] = map(json.loads, lines.decode().splitlines())
    question = {"id": "1", "question": "When?", "answers": ["1973"]}
    assert record == {"title": "Oil", "context": "In 1973.", "questions": [question]}


def test_the_english_files_of_babi_are_kept(tmp_path: Path):
    files = {
        "t/en-10k/qa1_a_train.txt": "1 A.",
        "t/en/qa1_a_train.txt": "1 B.",
        "t/hn-10k/qa1_a_train.txt": "1 C.",
    }
    found = list(converters.babi(tarball(tmp_path / "babi.tar.gz", files)))
    assert found == [("qa1_a_train.txt", b"1 A.")]


def tarball(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return path
