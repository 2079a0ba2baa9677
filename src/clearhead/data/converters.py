"""Public archives in another form than ours, converted to the files of a dataset."""

import hashlib
import io
import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from clearhead.data.images import decode, resize
from clearhead.errors import DataError

# As published by several libraries that download it; Stanford publishes none.
ACLIMDB_MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
# Pixels of a side, and quality of the JPEG files.
FLICKR_SIZE, FLICKR_QUALITY = 96, 80
REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos|unsup)/(\d+)_(\d+)\.txt")
CIFAR10_LABELS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
CIFAR10_IMAGE = re.compile(rf"/(train|test)/({'|'.join(CIFAR10_LABELS)})/(\d+)\.jpg$")
CIFAR10_SIZES = {"train": 50_000, "test": 10_000}


def aclimdb(archive: Path, md5: str = ACLIMDB_MD5) -> Iterator[tuple[str, bytes]]:
    """The reviews of aclImdb_v1.tar.gz, a file each, as lines of three files in the order of their ids."""
    with archive.open("rb") as stream:
        if hashlib.file_digest(stream, "md5").hexdigest() != md5:
            raise DataError(f"{archive.name}: cut short or another edition; download it again")
    lines: dict[str, list[tuple[str, int, bytes]]] = defaultdict(list)
    for path, content in _files(archive):
        if review := REVIEW.fullmatch(path.removeprefix("./")):
            part, kind, number, rating = review.groups()
            text = re.sub(rb"[\t\r\n]", b" ", content)
            if kind == "unsup":
                lines["imdb_unlabelled.txt"].append((kind, int(number), text))
            else:
                fields = f"{int(kind == 'pos')}\t{number}\t{rating}\t".encode()
                lines[f"imdb_{part}.tsv"].append((kind, int(number), fields + text))
    for name, found in lines.items():
        yield name, b"".join(line + b"\n" for _, _, line in sorted(found))


def cifar10(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The JPEG files of CIFAR-10, train/CLASS/NUMBER.jpg, as two .npz files sorted by class and number."""
    found: dict[str, list[tuple[int, str, bytes]]] = defaultdict(list)
    for path, content in _files(archive):
        if image := CIFAR10_IMAGE.search(path):
            part, label, number = image.groups()
            found[part].append((CIFAR10_LABELS.index(label), number, content))
    if {part: len(images) for part, images in found.items()} != CIFAR10_SIZES:
        raise DataError(f"{archive.name}: cut short or another edition; download it again")
    for part, images in found.items():
        images.sort()
        labels = np.array([label for label, *_ in images], np.uint8)
        yield f"cifar10_{part}_jpeg.npz", _npz([content for *_, content in images], labels=labels)


def _npz(files: list[bytes], **others: Any) -> bytes:
    """Image files one after the other, as `read_images` takes them, and other arrays."""
    stream = io.BytesIO()
    offsets = np.cumsum([0, *map(len, files)])
    np.savez(stream, jpeg=np.frombuffer(b"".join(files), np.uint8), offsets=offsets, **others)
    return stream.getvalue()


def squad(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The questions of SQuAD 1.1, one paragraph per line, without the offsets of the answers."""
    for path, content in _files(archive):
        if found := re.search(r"dataset/(train|dev)-v1\.1\.json$", path):
            lines = [
                json.dumps(_paragraph(article["title"], paragraph), ensure_ascii=False)
                for article in json.loads(content)["data"]
                for paragraph in article["paragraphs"]
            ]
            yield f"squad1.1-{found[1]}.jsonl", "".join(f"{line}\n" for line in lines).encode()


def _paragraph(title: str, paragraph: dict[str, Any]) -> dict[str, Any]:
    questions = [
        {
            "id": one["id"],
            "question": one["question"],
            "answers": list(dict.fromkeys(answer["text"] for answer in one["answers"])),
        }
        for one in paragraph["qas"]
    ]
    return {"title": title, "context": paragraph["context"], "questions": questions}


def babi(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The English files of bAbI with ten thousand questions per task."""
    for path, content in _files(archive):
        if "/en-10k/" in path and path.endswith(".txt"):
            yield Path(path).name, content


def _files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The regular files of a tar archive, with their paths."""
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content:
                yield member.name, content.read()


def flickr8k(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The texts of Flickr8k as they are, and its photographs squashed to small squares, in one .npz file."""
    photographs: dict[str, bytes] = {}
    for path, content in _files(archive):
        name = Path(path).name
        if name.endswith(".jpg"):
            photographs[name] = _squashed(content)
        elif name.startswith(("Flickr8k.token", "Flickr_8k.")):
            yield name, content
    if not photographs:
        raise DataError(f"{archive.name}: has no photographs; download it again")
    names = sorted(photographs)
    encoded = np.array([name.encode() for name in names])
    yield f"flickr8k_{FLICKR_SIZE}px_jpeg.npz", _npz([photographs[name] for name in names], names=encoded)


def _squashed(photograph: bytes) -> bytes:
    pixels = resize(decode(photograph), FLICKR_SIZE, "squash")
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=FLICKR_QUALITY)
    return buffer.getvalue()


CONVERTERS: dict[str, Callable[[Path], Iterator[tuple[str, bytes]]]] = {
    "aclimdb": aclimdb,
    "cifar10": cifar10,
    "squad": squad,
    "babi": babi,
    "flickr8k": flickr8k,
}
"""What makes the files of a dataset, by name, from its public archive."""
